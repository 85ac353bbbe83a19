use amqp_codec::{Method, MethodFields};

/// A method's struct, got out of the enum that holds any method.
pub trait Typed: MethodFields + Sized + 'static {
    /// The method if it is this one.
    fn from_method(method: Method<'static>) -> Option<Self>;
}

impl<M: MethodFields + TryFrom<Method<'static>> + 'static> Typed for M {
    fn from_method(method: Method<'static>) -> Option<Self> {
        Self::try_from(method).ok()
    }
}
