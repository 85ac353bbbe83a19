//! Messages on their way to a broker: a body, its properties, and whether it must be routable.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use amqp_codec::basic::Properties;
use amqp_codec::{Array, RawTable, ShortStr, Table, Value};
use bytes::Bytes;

/// How long brokers let messages and queues live at most: ten years.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Properties of a message that has none.
static NO_PROPERTIES: Properties<'static> = Properties::EMPTY;

/// A message to publish: body, properties, and the mandatory flag.
///
/// Cloning is cheap: the body is reference-counted and so are the properties. Setters that take a string accept
/// `&'static str` (free), `String`, `&String` or a [`ShortStr`]. A string of more than 255 bytes cannot be sent;
/// the message remembers which property it was meant for and publishing it is refused with
/// [`InvalidMessage`](crate::error::UsageError::InvalidProperty), so that a chain of setters needs no `?`.
///
/// ```
/// use amqp_client::Message;
///
/// let order = Message::new("{}").persistent().message_id("01J").content_type("application/json").mandatory();
/// assert!(order.is_mandatory());
/// ```
#[derive(Clone)]
pub struct Message {
    body: Bytes,
    properties: Option<Arc<Properties<'static>>>,
    mandatory: bool,
    invalid: Option<Property>,
}

/// The properties of a message, by the specification's names, for errors that must say which one is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Property {
    /// `content-type`
    ContentType,
    /// `content-encoding`
    ContentEncoding,
    /// `headers`
    Headers,
    /// `correlation-id`
    CorrelationId,
    /// `reply-to`
    ReplyTo,
    /// `expiration`
    Expiration,
    /// `message-id`
    MessageId,
    /// `type`
    Kind,
    /// `user-id`
    UserId,
    /// `app-id`
    AppId,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Property::ContentType => "content-type",
            Property::ContentEncoding => "content-encoding",
            Property::Headers => "headers",
            Property::CorrelationId => "correlation-id",
            Property::ReplyTo => "reply-to",
            Property::Expiration => "expiration",
            Property::MessageId => "message-id",
            Property::Kind => "type",
            Property::UserId => "user-id",
            Property::AppId => "app-id",
        })
    }
}

macro_rules! string_setters {
    ($($(#[$doc:meta])* $name:ident => $property:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, value: impl TryInto<ShortStr<'static>>) -> Self {
                match value.try_into() {
                    Ok(value) => self.properties_mut().$name = Some(value),
                    Err(_) => self.invalid = Some(Property::$property),
                }
                self
            }
        )*
    };
}

impl Message {
    /// A message with this body, without properties, not mandatory.
    ///
    /// An acked message is dropped while the connection's state is locked: what owns the bytes
    /// ([`Bytes::from_owner`]) must not call into the connection when it is dropped.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Message {
            body: body.into(),
            properties: None,
            mandatory: false,
            invalid: None,
        }
    }

    /// A message with these properties as they are. Only their size and the encoding of the headers are checked before
    /// they are sent: the way to send what a broker would refuse.
    pub fn with_properties(body: impl Into<Bytes>, properties: Properties<'static>) -> Self {
        Message {
            properties: Some(Arc::new(properties)),
            ..Message::new(body)
        }
    }

    /// Asks the broker to return the message if no queue takes it, instead of dropping it (basic.publish `mandatory`).
    #[must_use]
    pub fn mandatory(mut self) -> Self {
        self.mandatory = true;
        self
    }

    /// Asks the broker to keep the message on disk where its queue is durable (delivery mode 2).
    #[must_use]
    pub fn persistent(mut self) -> Self {
        self.properties_mut().delivery_mode = Some(2);
        self
    }

    /// Says that the message need not survive a restart of the broker (delivery mode 1).
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.properties_mut().delivery_mode = Some(1);
        self
    }

    /// The priority, 0 to 255; what a queue makes of it depends on its `x-max-priority`.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.properties_mut().priority = Some(priority);
        self
    }

    /// The time the message was made, in seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn timestamp(mut self, seconds: u64) -> Self {
        self.properties_mut().timestamp = Some(seconds);
        self
    }

    /// How long the message may wait in a queue before it expires (sent as `expiration`, whole milliseconds, at most
    /// ten years). It is then dropped or dead-lettered. With zero it expires unless it can be delivered at once.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.expiration(ttl.as_millis().to_string())
    }

    /// Milliseconds in a string, as the protocol has it; [`Message::ttl`] is the typed way. RabbitMQ closes the channel
    /// (406) for anything else, and for more than ten years: the message is refused here then.
    #[must_use]
    pub fn expiration(mut self, millis: impl TryInto<ShortStr<'static>>) -> Self {
        match millis.try_into() {
            Ok(millis) if is_expiration(&millis) => {
                self.properties_mut().expiration = Some(millis);
            }
            Ok(_) | Err(_) => self.invalid = Some(Property::Expiration),
        }
        self
    }

    /// Further routing keys: the message also goes where they lead (RabbitMQ: the header `CC`, which consumers see).
    /// Replaces those set before.
    ///
    /// ```
    /// use amqp_client::Message;
    ///
    /// let order = Message::new("{}").cc(["audit", "billing"]).bcc(["fraud"]);
    /// ```
    #[must_use]
    pub fn cc<K>(self, routing_keys: impl IntoIterator<Item = K>) -> Self
    where
        K: TryInto<ShortStr<'static>>,
    {
        self.routing_keys(CC, routing_keys)
    }

    /// The same, but no consumer sees these keys (RabbitMQ: the header `BCC`).
    #[must_use]
    pub fn bcc<K>(self, routing_keys: impl IntoIterator<Item = K>) -> Self
    where
        K: TryInto<ShortStr<'static>>,
    {
        self.routing_keys(BCC, routing_keys)
    }

    fn routing_keys<K>(
        mut self,
        header: ShortStr<'static>,
        keys: impl IntoIterator<Item = K>,
    ) -> Self
    where
        K: TryInto<ShortStr<'static>>,
    {
        let keys: Result<Array<'static>, K::Error> = keys.into_iter().map(K::try_into).collect();
        match keys {
            Ok(keys) => self.header(header, keys),
            Err(_) => {
                self.invalid = Some(Property::Headers);
                self
            }
        }
    }

    string_setters! {
        /// The MIME type of the body.
        content_type => ContentType,
        /// The MIME encoding of the body.
        content_encoding => ContentEncoding,
        /// What ties this message to another one, usually a reply to its request.
        correlation_id => CorrelationId,
        /// Where replies are expected, usually a queue's name, or [`DIRECT_REPLY_TO`](crate::DIRECT_REPLY_TO).
        reply_to => ReplyTo,
        /// An identifier that stays the same over retries, so that consumers can recognise duplicates.
        message_id => MessageId,
        /// The application's name for this kind of message (the property `type`).
        kind => Kind,
        /// The user who publishes; RabbitMQ refuses a name other than the connection's.
        user_id => UserId,
        /// The application that publishes.
        app_id => AppId,
    }

    /// Replaces all headers.
    #[must_use]
    pub fn headers(mut self, headers: Table<'static>) -> Self {
        self.properties_mut().headers = Some(RawTable::from(headers));
        self
    }

    /// Sets one header, replacing one of the same name.
    #[must_use]
    pub fn header<'v>(
        mut self,
        name: impl TryInto<ShortStr<'static>>,
        value: impl Into<Value<'v>>,
    ) -> Self {
        if let (Ok(name), Some(mut headers)) = (name.try_into(), self.decoded_headers())
            && headers.insert(name, value).is_ok()
        {
            return self.headers(headers);
        }
        self.invalid = Some(Property::Headers);
        self
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, without the rest.
    pub fn into_body(self) -> Bytes {
        self.body
    }

    /// The same message with an empty body.
    pub(crate) fn without_body(&self) -> Message {
        Message {
            body: Bytes::new(),
            ..self.clone()
        }
    }

    /// The properties.
    pub fn properties(&self) -> &Properties<'static> {
        self.properties.as_deref().unwrap_or(&NO_PROPERTIES)
    }

    /// The properties, unless none was ever set.
    pub(crate) fn set_properties(&self) -> Option<&Properties<'static>> {
        self.properties.as_deref()
    }

    /// The properties, to be changed in place.
    pub fn properties_mut(&mut self) -> &mut Properties<'static> {
        Arc::make_mut(self.properties.get_or_insert_default())
    }

    /// Whether the broker is asked to return the message if no queue takes it.
    pub fn is_mandatory(&self) -> bool {
        self.mandatory
    }

    /// The property that was given a value it cannot hold, if any: publishing the message is refused with it.
    pub fn invalid_property(&self) -> Option<Property> {
        self.invalid
    }

    /// The headers as a table of our own, empty if there are none; `None` if what is there cannot be taken apart.
    fn decoded_headers(&self) -> Option<Table<'static>> {
        match &self.properties().headers {
            None => Some(Table::default()),
            Some(raw) => raw
                .decode(&amqp_codec::Limits::default())
                .ok()
                .map(Table::into_owned),
        }
    }
}

const CC: ShortStr<'static> = ShortStr::from_static("CC");
const BCC: ShortStr<'static> = ShortStr::from_static("BCC");

fn is_expiration(millis: &ShortStr<'_>) -> bool {
    let digits = millis.as_bytes().iter().all(u8::is_ascii_digit);
    let number = millis.as_str().ok().and_then(|text| text.parse().ok());
    digits && number.is_some_and(|millis| Duration::from_millis(millis) <= MAX_TTL)
}

/// A message without properties is the same as one whose properties are all unset.
impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
            && self.properties() == other.properties()
            && self.mandatory == other.mandatory
            && self.invalid == other.invalid
    }
}

/// Shows sizes and identifiers, never the payload or the headers' values.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("body_len", &self.body.len())
            .field("message_id", &self.properties().message_id)
            .field("mandatory", &self.mandatory)
            .finish_non_exhaustive()
    }
}

/// A message and where it was to go: what comes back with every outcome other than acked, ready to be published again.
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    /// The exchange; empty is the default exchange, which routes to the queue named by the routing key.
    pub exchange: ShortStr<'static>,
    /// The routing key.
    pub routing_key: ShortStr<'static>,
    /// The message, as it was given to `publish`.
    pub message: Message,
}
