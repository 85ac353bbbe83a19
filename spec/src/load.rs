//! From TOML to a checked [`Specification`].

use std::collections::HashSet;

use thiserror::Error;

use crate::model::{
    Assertion, Change, Class, Deviation, Field, Layer, Method, Specification, Type,
};

/// Why the data was not taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No TOML, or not of the shape of the model.
    #[error("{file}: {source}")]
    Toml {
        /// The file.
        file: &'static str,
        /// What the parser says.
        source: Box<toml::de::Error>,
    },
    /// Two of the same name.
    #[error("{what} {name} is there twice")]
    Duplicate {
        /// What kind of thing.
        what: &'static str,
        /// Its path.
        name: String,
    },
    /// Two of the same number.
    #[error("{what} {name} has number {value}, which is taken")]
    DuplicateNumber {
        /// What kind of thing.
        what: &'static str,
        /// The path of the second.
        name: String,
        /// The number.
        value: u16,
    },
    /// A name that is not one: lower case letters and digits with single hyphens.
    #[error("{0:?} is no name")]
    BadName(String),
    /// A field whose domain does not exist.
    #[error("{field} is of the unknown domain {domain}")]
    UnknownDomain {
        /// The path of the field.
        field: String,
        /// Its domain.
        domain: String,
    },
    /// A reply that does not exist.
    #[error("{method} is answered by {reply}, which does not exist")]
    UnknownReply {
        /// The path of the method.
        method: String,
        /// The reply.
        reply: String,
    },
    /// A reply that cannot travel back.
    #[error("{method} is answered by {reply}, which does not go the other way")]
    ReplyDirection {
        /// The path of the method.
        method: String,
        /// The reply.
        reply: String,
    },
    /// Replies to a method that nobody waits for.
    #[error("{0} has replies but is not synchronous")]
    ReplyToAsynchronous(String),
    /// A method that nobody sends.
    #[error("{0} goes neither to servers nor to clients")]
    NoDirection(String),
    /// Bits in more than one octet; the generated types keep one octet's undefined bits.
    #[error("{0} has bits in more than one octet")]
    ScatteredBits(String),
    /// Properties that do not fit one word of flags, or are bits.
    #[error("the properties of {0} do not fit one word of flags")]
    Properties(String),
    /// Content in a class without properties.
    #[error("{0} carries content, but its class has no properties")]
    ContentWithoutProperties(String),
    /// An assertion about a field that does not exist.
    #[error("{field} is compared with {other}, which does not exist")]
    UnknownComparison {
        /// The path of the field.
        field: String,
        /// What it is compared with.
        other: String,
    },
    /// Documentation or a reason that says nothing.
    #[error("{0} is not described")]
    Undescribed(String),
    /// Part of a layer that is about something that does not exist.
    #[error("{layer} is about {path}, which does not exist")]
    UnknownTarget {
        /// The layer's name.
        layer: String,
        /// The path.
        path: String,
    },
    /// A deviation that does not deviate.
    #[error("{layer}: nothing changes by the deviation with the reason {reason:?}")]
    NoDeviation {
        /// The layer's name.
        layer: String,
        /// Its reason.
        reason: String,
    },
    /// A tag on which both agree with a reason why they do not, or the other way round.
    #[error("{layer}: field tag {tag} is read differently without a reason, or by nobody")]
    FieldTag {
        /// The layer's name.
        layer: String,
        /// The tag.
        tag: char,
    },
}

/// Reads a specification and a layer over it, and checks the result.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn load(base: &str, layer: &str) -> Result<(Specification, Layer), LoadError> {
    let base = parse_base(base)?;
    check(&base)?;
    let layer = parse_layer(layer)?;
    let mut spec = base;
    for deviation in &layer.deviations {
        apply(&mut spec, &layer.name, deviation)?;
        // After each: a later one may replace what is wrong.
        check(&spec)?;
    }
    check_layer(&spec, &layer)?;
    Ok((spec, layer))
}

/// Reads a specification, unchecked.
///
/// # Errors
/// It is no TOML of the right shape.
pub fn parse_base(text: &str) -> Result<Specification, LoadError> {
    parse("amqp-0-9-1.toml", text)
}

/// Reads a layer, unchecked.
///
/// # Errors
/// It is no TOML of the right shape.
pub fn parse_layer(text: &str) -> Result<Layer, LoadError> {
    parse("rabbitmq.toml", text)
}

fn parse<T: serde::de::DeserializeOwned>(file: &'static str, text: &str) -> Result<T, LoadError> {
    toml::from_str(text).map_err(|source| LoadError::Toml {
        file,
        source: Box::new(source),
    })
}

/// Changes a specification by one deviation of a layer.
///
/// # Errors
/// What is to be changed does not exist, or is that way already.
pub fn apply(
    spec: &mut Specification,
    layer: &str,
    deviation: &Deviation,
) -> Result<(), LoadError> {
    let before = spec.clone();
    let unknown = |path: &str| LoadError::UnknownTarget {
        layer: layer.to_owned(),
        path: path.to_owned(),
    };
    match &deviation.change {
        Change::AddConstant(constant) => spec.constants.push(constant.clone()),
        Change::AddClass(class) => {
            let mut class = class.clone();
            for method in &mut class.methods {
                method.added = true;
            }
            spec.classes.push(class);
        }
        Change::AddMethods { class, methods } => {
            let class = class_mut(spec, class).ok_or_else(|| unknown(class))?;
            class
                .methods
                .extend(methods.iter().cloned().map(|method| Method {
                    added: true,
                    ..method
                }));
        }
        Change::ChangeMethod {
            method: path,
            to_server,
            to_client,
            synchronous,
            replies,
        } => {
            let method = method_mut(spec, path).ok_or_else(|| unknown(path))?;
            method.to_server = to_server.or(method.to_server);
            method.to_client = to_client.or(method.to_client);
            method.synchronous = synchronous.unwrap_or(method.synchronous);
            if let Some(replies) = replies {
                method.replies.clone_from(replies);
            }
        }
        Change::ReplaceField {
            method: path,
            field,
            with,
        } => {
            let method = method_mut(spec, path).ok_or_else(|| unknown(path))?;
            replace(&mut method.fields, field, with)
                .ok_or_else(|| unknown(&format!("{path}.{field}")))?;
        }
        Change::ReplaceProperty {
            class: name,
            property,
            with,
        } => {
            let class = class_mut(spec, name).ok_or_else(|| unknown(name))?;
            replace(&mut class.properties, property, with)
                .ok_or_else(|| unknown(&format!("{name}.{property}")))?;
        }
    }
    if *spec == before {
        return Err(LoadError::NoDeviation {
            layer: layer.to_owned(),
            reason: deviation.reason.clone(),
        });
    }
    Ok(())
}

fn class_mut<'a>(spec: &'a mut Specification, name: &str) -> Option<&'a mut Class> {
    spec.classes.iter_mut().find(|class| class.name == name)
}

fn method_mut<'a>(spec: &'a mut Specification, path: &str) -> Option<&'a mut Method> {
    let (class, name) = path.split_once('.')?;
    class_mut(spec, class)?
        .methods
        .iter_mut()
        .find(|method| method.name == name)
}

fn replace(fields: &mut [Field], name: &str, with: &Field) -> Option<()> {
    let field = fields.iter_mut().find(|field| field.name == name)?;
    field.clone_from(with);
    Some(())
}

/// Checks that a specification makes sense and that code can be generated from it.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(spec: &Specification) -> Result<(), LoadError> {
    let (mut names, mut values) = (Unique::new("constant"), Unique::new("constant"));
    for constant in &spec.constants {
        names.name(&constant.name, &constant.name)?;
        values.number(&constant.name, constant.value)?;
        described(&constant.name, &constant.doc)?;
    }
    let mut names = Unique::new("domain");
    for domain in &spec.domains {
        names.name(&domain.name, &domain.name)?;
        described(&domain.name, &domain.doc)?;
    }
    let (mut names, mut ids) = (Unique::new("class"), Unique::new("class"));
    for class in &spec.classes {
        names.name(&class.name, &class.name)?;
        ids.number(&class.name, class.id)?;
        described(&class.name, &class.doc)?;
        check_class(spec, class)?;
    }
    Ok(())
}

fn check_class(spec: &Specification, class: &Class) -> Result<(), LoadError> {
    check_fields(spec, class, &class.name, &class.properties)?;
    let has_bits = class
        .properties
        .iter()
        .any(|field| spec.type_of(field) == Some(Type::Bit));
    // Of the 16 flags the last says that another word of flags follows.
    if has_bits || class.properties.len() > 15 {
        return Err(LoadError::Properties(class.name.clone()));
    }

    let (mut names, mut ids) = (Unique::new("method"), Unique::new("method"));
    for method in &class.methods {
        let path = format!("{}.{}", class.name, method.name);
        names.name(&path, &method.name)?;
        ids.number(&path, method.id)?;
        described(&path, &method.doc)?;
        check_fields(spec, class, &path, &method.fields)?;
        check_replies(class, method, &path)?;
        let octets = method
            .fields
            .chunk_by(|a, b| {
                spec.type_of(a) == Some(Type::Bit) && spec.type_of(b) == Some(Type::Bit)
            })
            .filter(|run| spec.type_of(&run[0]) == Some(Type::Bit))
            .map(|bits| bits.len().div_ceil(8))
            .sum::<usize>();
        if octets > 1 {
            return Err(LoadError::ScatteredBits(path));
        }
        if method.content && class.properties.is_empty() {
            return Err(LoadError::ContentWithoutProperties(path));
        }
    }
    Ok(())
}

fn check_replies(class: &Class, method: &Method, path: &str) -> Result<(), LoadError> {
    if method.to_server.is_none() && method.to_client.is_none() {
        return Err(LoadError::NoDirection(path.to_owned()));
    }
    if !method.replies.is_empty() && !method.synchronous {
        return Err(LoadError::ReplyToAsynchronous(path.to_owned()));
    }
    let mut names = Unique::new("reply");
    for name in &method.replies {
        names.name(&format!("{path}: {name}"), name)?;
        let reply = class.method(name).ok_or_else(|| LoadError::UnknownReply {
            method: path.to_owned(),
            reply: name.clone(),
        })?;
        let back = (method.to_server.is_some() && reply.to_client.is_some())
            || (method.to_client.is_some() && reply.to_server.is_some());
        if !back {
            return Err(LoadError::ReplyDirection {
                method: path.to_owned(),
                reply: name.clone(),
            });
        }
    }
    Ok(())
}

fn check_fields(
    spec: &Specification,
    class: &Class,
    path: &str,
    fields: &[Field],
) -> Result<(), LoadError> {
    let mut names = Unique::new("field");
    for field in fields {
        let path = format!("{path}.{}", field.name);
        names.name(&path, &field.name)?;
        described(&path, &field.doc)?;
        if spec.type_of(field).is_none() {
            return Err(LoadError::UnknownDomain {
                field: path,
                domain: field.domain.clone(),
            });
        }
        for assertion in &field.assert {
            if let Assertion::AtMost(other) = assertion
                && !spec.has_path(&format!("{}.{other}", class.name))
            {
                return Err(LoadError::UnknownComparison {
                    field: path,
                    other: other.clone(),
                });
            }
        }
    }
    Ok(())
}

fn check_layer(spec: &Specification, layer: &Layer) -> Result<(), LoadError> {
    let target = |path: &String| match spec.has_path(path) {
        true => Ok(()),
        false => Err(LoadError::UnknownTarget {
            layer: layer.name.clone(),
            path: path.to_owned(),
        }),
    };
    for deviation in &layer.deviations {
        described(&format!("a deviation of {}", layer.name), &deviation.reason)?;
    }
    let mut places = Unique::new("behaviour");
    for behaviour in &layer.behaviours {
        places.key(&behaviour.at)?;
        target(&behaviour.at)?;
        described(&behaviour.at, &behaviour.text)?;
        described(&behaviour.at, &behaviour.reason)?;
    }
    let mut keys = Unique::new("argument");
    for argument in &layer.arguments {
        described(&argument.key, &argument.doc)?;
        described(&argument.key, &argument.on.concat())?;
        for on in &argument.on {
            keys.key(&format!("{on}: {}", argument.key))?;
            target(on)?;
        }
    }
    let mut keys = Unique::new("peer property");
    for property in &layer.peer_properties {
        keys.key(&property.key)?;
        described(&property.key, &property.doc)?;
    }
    let mut keys = Unique::new("capability");
    for capability in &layer.capabilities {
        keys.key(&capability.key)?;
        described(&capability.key, &capability.doc)?;
        described(&capability.key, &capability.announced)?;
    }
    let mut tags = Unique::new("field tag");
    for tag in &layer.field_tags {
        tags.key(&tag.tag.to_string())?;
        let nobody = tag.specification.is_none() && tag.rabbitmq.is_none();
        let differs = tag.specification != tag.rabbitmq;
        if let Some(reason) = &tag.reason {
            described(&format!("field tag {}", tag.tag), reason)?;
        }
        if nobody || (differs && tag.reason.is_none()) || !tag.tag.is_ascii_alphabetic() {
            return Err(LoadError::FieldTag {
                layer: layer.name.clone(),
                tag: tag.tag,
            });
        }
    }
    Ok(())
}

fn described(path: &str, text: &str) -> Result<(), LoadError> {
    match text.trim().is_empty() {
        true => Err(LoadError::Undescribed(path.to_owned())),
        false => Ok(()),
    }
}

/// Names or numbers seen so far.
struct Unique {
    what: &'static str,
    seen: HashSet<String>,
}

impl Unique {
    fn new(what: &'static str) -> Self {
        Self {
            what,
            seen: HashSet::new(),
        }
    }

    fn name(&mut self, path: &str, name: &str) -> Result<(), LoadError> {
        let part = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        if !name.split('-').all(part) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(LoadError::BadName(name.to_owned()));
        }
        match self.seen.insert(name.to_owned()) {
            true => Ok(()),
            false => Err(LoadError::Duplicate {
                what: self.what,
                name: path.to_owned(),
            }),
        }
    }

    fn key(&mut self, key: &str) -> Result<(), LoadError> {
        match self.seen.insert(key.to_owned()) {
            true => Ok(()),
            false => Err(LoadError::Duplicate {
                what: self.what,
                name: key.to_owned(),
            }),
        }
    }

    fn number(&mut self, path: &str, value: u16) -> Result<(), LoadError> {
        match self.seen.insert(value.to_string()) {
            true => Ok(()),
            false => Err(LoadError::DuplicateNumber {
                what: self.what,
                name: path.to_owned(),
                value,
            }),
        }
    }
}
