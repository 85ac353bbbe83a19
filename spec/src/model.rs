//! The protocol as it stands in the TOML files.

use serde::Deserialize;

/// A whole protocol: the specification, or what it is after a [`Layer`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Specification {
    /// Name and version.
    pub protocol: Protocol,
    /// Frame types and reply codes.
    #[serde(rename = "constant")]
    pub constants: Vec<Constant>,
    /// Names for types.
    #[serde(rename = "domain")]
    pub domains: Vec<Domain>,
    /// Classes with their methods.
    #[serde(rename = "class")]
    pub classes: Vec<Class>,
}

impl Specification {
    /// The class of that name.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// The method of that name, as `basic.publish`.
    pub fn method(&self, path: &str) -> Option<(&Class, &Method)> {
        let (class, method) = path.split_once('.')?;
        let class = self.class(class)?;
        Some((class, class.method(method)?))
    }

    /// The type a field has on the wire, if its domain is known.
    pub fn type_of(&self, field: &Field) -> Option<Type> {
        self.domains
            .iter()
            .find(|domain| domain.name == field.domain)
            .map(|domain| domain.kind)
    }

    /// Whether there is a class, method, method's field or property at a path such as `basic.qos.global` or
    /// `basic.expiration`.
    pub fn has_path(&self, path: &str) -> bool {
        let mut parts = path.split('.');
        let Some(class) = parts.next().and_then(|name| self.class(name)) else {
            return false;
        };
        match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => true,
            (Some(name), None, _) => {
                class.method(name).is_some()
                    || class.properties.iter().any(|field| field.name == name)
            }
            (Some(method), Some(name), None) => class
                .method(method)
                .is_some_and(|method| method.fields.iter().any(|field| field.name == name)),
            (Some(_), Some(_), Some(_)) => false,
        }
    }
}

/// Name and version of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// Revision.
    pub revision: u8,
    /// TCP port without TLS.
    pub port: u16,
}

/// A number with a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u16,
    /// What it is for.
    pub kind: ConstantKind,
    /// What it means.
    pub doc: String,
}

/// What a constant is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConstantKind {
    /// Framing.
    Frame,
    /// Reply code: no error.
    Success,
    /// Reply code: an error that costs the channel.
    Soft,
    /// Reply code: an error that costs the connection.
    Hard,
}

/// A name for a type of fields.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// The type on the wire.
    #[serde(rename = "type")]
    pub kind: Type,
    /// What must hold for its values.
    #[serde(default)]
    pub assert: Vec<Assertion>,
    /// What it is.
    pub doc: String,
}

/// The types fields have on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Type {
    /// One bit of an octet that it shares with its neighbours.
    Bit,
    /// 8 bits, unsigned.
    Octet,
    /// 16 bits, unsigned.
    Short,
    /// 32 bits, unsigned.
    Long,
    /// 64 bits, unsigned.
    Longlong,
    /// Up to 255 octets behind one with their number.
    Shortstr,
    /// Octets behind a long with their number.
    Longstr,
    /// 64 bits of seconds.
    Timestamp,
    /// Names and values behind a long with their size.
    Table,
}

/// What must hold for the value of a field or domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assertion {
    /// Not zero, not empty.
    NotNull,
    /// So many octets at most.
    MaxLength(u32),
    /// Matches the regular expression.
    Pattern(String),
    /// Not above the value of a field of another method of the class, `method.field`.
    AtMost(String),
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u16,
    /// The channels its methods travel on.
    pub handler: Handler,
    /// How firmly servers have to support it.
    pub server: Level,
    /// How firmly clients have to support it.
    pub client: Level,
    /// What it is about.
    pub doc: String,
    /// The properties of its contents, in the order of their flags from bit 15 down.
    #[serde(default)]
    pub properties: Vec<Field>,
    /// Its methods.
    #[serde(default, rename = "method")]
    pub methods: Vec<Method>,
}

impl Class {
    /// The method of that name.
    pub fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name == name)
    }
}

/// Where the methods of a class travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handler {
    /// On channel 0.
    Connection,
    /// On the other channels.
    Channel,
}

/// How firmly something has to be supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Always.
    Must,
    /// Unless there is a reason not to.
    Should,
    /// Or not.
    May,
}

/// A method.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Method {
    /// Its name within the class.
    pub name: String,
    /// Its number within the class.
    pub id: u16,
    /// Set if clients send it: how firmly servers have to support it.
    pub to_server: Option<Level>,
    /// Set if servers send it: how firmly clients have to support it.
    pub to_client: Option<Level>,
    /// Whether the sender waits for an answer, or this is one.
    #[serde(default)]
    pub synchronous: bool,
    /// The methods of the class that answer it.
    #[serde(default)]
    pub replies: Vec<String>,
    /// Whether content follows.
    #[serde(default)]
    pub content: bool,
    /// Whether the specification advises against it.
    #[serde(default)]
    pub deprecated: bool,
    /// What it does.
    pub doc: String,
    /// Its fields, in the order of the wire.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// Whether a layer added it.
    #[serde(skip)]
    pub added: bool,
}

/// A field of a method, or a property.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The domain that gives its type.
    pub domain: String,
    /// Whether it has no meaning.
    #[serde(default)]
    pub reserved: bool,
    /// Whether it must not be shown, as in logs.
    #[serde(default)]
    pub secret: bool,
    /// What must hold for its value besides what its domain says.
    #[serde(default)]
    pub assert: Vec<Assertion>,
    /// What it means.
    pub doc: String,
}

/// What an implementation adds to a [`Specification`] or does otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Layer {
    /// The implementation.
    pub name: String,
    /// What differs on the wire.
    #[serde(default, rename = "deviation")]
    pub deviations: Vec<Deviation>,
    /// What differs in meaning.
    #[serde(default, rename = "behaviour")]
    pub behaviours: Vec<Behaviour>,
    /// Well-known keys of tables.
    #[serde(default, rename = "argument")]
    pub arguments: Vec<Argument>,
    /// Well-known keys of the peers' properties.
    #[serde(default, rename = "peer-property")]
    pub peer_properties: Vec<PeerProperty>,
    /// Well-known keys of the peers' capabilities.
    #[serde(default, rename = "capability")]
    pub capabilities: Vec<Capability>,
    /// The values in tables.
    #[serde(default, rename = "field-tag")]
    pub field_tags: Vec<FieldTag>,
}

/// A change to the specification.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Deviation {
    /// Why.
    pub reason: String,
    /// Whether the extended specification of the package amqp-specs has it too.
    pub in_amqp_specs: bool,
    /// What.
    pub change: Change,
}

/// What a [`Deviation`] changes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// One more constant.
    AddConstant(Constant),
    /// One more class.
    AddClass(Class),
    /// More methods for a class.
    #[serde(rename_all = "kebab-case")]
    AddMethods {
        /// The class.
        class: String,
        /// The methods.
        #[serde(rename = "method")]
        methods: Vec<Method>,
    },
    /// Other settings for a method; what is left out stays.
    #[serde(rename_all = "kebab-case")]
    ChangeMethod {
        /// The method, as `basic.ack`.
        method: String,
        /// See [`Method::to_server`].
        to_server: Option<Level>,
        /// See [`Method::to_client`].
        to_client: Option<Level>,
        /// See [`Method::synchronous`].
        synchronous: Option<bool>,
        /// See [`Method::replies`].
        replies: Option<Vec<String>>,
    },
    /// Another field in place of one.
    ReplaceField {
        /// The method, as `exchange.declare`.
        method: String,
        /// The field to replace.
        field: String,
        /// What takes its place.
        with: Field,
    },
    /// Another property in place of one.
    ReplaceProperty {
        /// The class.
        class: String,
        /// The property to replace.
        property: String,
        /// What takes its place.
        with: Field,
    },
}

/// Something that means or does something else than the specification has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Behaviour {
    /// The method, field or property, as `basic.qos.global`.
    pub at: String,
    /// What it does.
    pub text: String,
    /// Why, or how it is known.
    pub reason: String,
}

/// A well-known key of a table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Argument {
    /// The key.
    pub key: String,
    /// The type of its value, in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// The fields and properties it is for, as `queue.declare.arguments`.
    pub on: Vec<String>,
    /// What it does.
    pub doc: String,
}

/// A well-known key of `server-properties` or `client-properties`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PeerProperty {
    /// The key.
    pub key: String,
    /// The type of its value, in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who sends it.
    pub sent_by: Sender,
    /// What it says.
    pub doc: String,
}

/// Who sends a peer property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// Servers.
    Server,
    /// Clients.
    Client,
    /// Both.
    Both,
}

/// A well-known key of the peer property `capabilities`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Capability {
    /// The key.
    pub key: String,
    /// What a server says with it.
    pub doc: String,
    /// What it changes that a client announces it.
    pub announced: String,
}

/// A type of value in tables.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FieldTag {
    /// The letter on the wire.
    pub tag: char,
    /// What the specification reads, if it knows the letter.
    pub specification: Option<String>,
    /// What the implementation reads, if it knows the letter.
    pub rabbitmq: Option<String>,
    /// Why they differ.
    pub reason: Option<String>,
}
