//! What a check is given: connections, names of its own, and the promise that nothing of it stays behind.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use amqp_codec::ShortStr;

use crate::connection::{Connection, Login};
use crate::control::Control;
use crate::failure::Failure;
use crate::record::{Leftover, Record};
use crate::target::Target;
use crate::wire::Wire;

/// What a check is given.
#[derive(Debug)]
pub struct Context {
    target: Rc<Target>,
    control: Option<Control>,
    record: Rc<Record>,
    /// What all names of this check begin with.
    prefix: String,
    names: Cell<u32>,
    chop: bool,
    factor: f64,
}

/// How long a thing that is expected may take.
const PATIENCE: Duration = Duration::from_secs(4);

impl Context {
    pub(crate) fn new(
        target: Rc<Target>,
        control: Option<Control>,
        record: Rc<Record>,
        prefix: String,
        chop: bool,
        factor: f64,
    ) -> Self {
        Self {
            target,
            control,
            record,
            prefix,
            names: Cell::new(0),
            chop,
            factor,
        }
    }

    /// A TCP connection on which nothing has been said yet.
    ///
    /// # Errors
    /// The broker does not accept it.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let patience = self.scaled(PATIENCE);
        let record = Rc::clone(&self.record);
        let wire = Wire::connect(self.target.address(), patience, self.chop, record).await?;
        Ok(Connection::new(wire, Rc::clone(&self.record)))
    }

    /// A connection after the whole handshake, on the virtual host under test.
    ///
    /// # Errors
    /// The broker does not play its part.
    pub async fn open(&self) -> Result<Connection, Failure> {
        self.open_as(&self.login()).await
    }

    /// A connection after the whole handshake, with what this login says.
    ///
    /// # Errors
    /// The broker does not play its part.
    pub async fn open_as(&self, login: &Login) -> Result<Connection, Failure> {
        let mut connection = self.connect().await?;
        connection.handshake(login).await?;
        Ok(connection)
    }

    /// A connection with the channel 1 open: what most checks begin with.
    ///
    /// # Errors
    /// The broker does not play its part.
    pub async fn open_channel(&self) -> Result<Connection, Failure> {
        let mut connection = self.open().await?;
        connection.open_channel(1).await?;
        Ok(connection)
    }

    /// What a well-behaved client says in the handshake: the user under test by PLAIN, all capabilities of RabbitMQ's
    /// clients, the server's limits, no heartbeats.
    pub fn login(&self) -> Login {
        self.target.login()
    }

    /// The user's name and password.
    pub fn credentials(&self) -> (&str, &str) {
        (&self.target.user, &self.target.password)
    }

    /// A name that nobody else has, for what goes with the connection: exclusive queues, consumers. `what` says what it
    /// is for; it is part of the name.
    pub fn name(&self, what: &str) -> ShortStr<'static> {
        self.names.set(self.names.get() + 1);
        // Names have no spaces: domains exchange-name and queue-name.
        let what = what.replace(' ', "-");
        let name = format!("{}.{}.{what}", self.prefix, self.names.get());
        ShortStr::try_from(name).unwrap_or_default()
    }

    /// A name for a queue that outlives the connection. It is deleted after the check.
    pub fn queue(&self, what: &str) -> ShortStr<'static> {
        let name = self.name(what);
        let leftover = Leftover::Queue(name.clone());
        self.record.leftovers.borrow_mut().push(leftover);
        name
    }

    /// A name for an exchange. It is deleted after the check.
    pub fn exchange(&self, what: &str) -> ShortStr<'static> {
        let name = self.name(what);
        let leftover = Leftover::Exchange(name.clone());
        self.record.leftovers.borrow_mut().push(leftover);
        name
    }

    /// Where the specification is silent: what the broker does, told in the report. The check counts as informational
    /// then, unless it fails.
    pub fn observe(&self, what: impl std::fmt::Display) {
        self.record.observe(what.to_string());
    }

    /// A duration, longer where the user asked for more patience with a slow broker (`--timeout-factor`).
    pub fn scaled(&self, duration: Duration) -> Duration {
        duration.mul_f64(self.factor)
    }

    /// Has the operator do something to the broker: `raise-alarm`, `clear-alarm`, `close-connections` (all those on the
    /// virtual host under test, with 320). Only checks that [hurt](crate::check::Builder::hurts) may.
    ///
    /// # Errors
    /// There is no operator (`--control`): unimplemented. Or the operator cannot.
    pub async fn control(&self, what: &str) -> Result<(), Failure> {
        let Some(control) = &self.control else {
            return Err(Failure::unimplemented(
                format_args!("an operator to {what} (--control)"),
                "no operator",
            ));
        };
        let vhost = self.target.vhost.to_string_lossy();
        control.ask(what, &vhost).await.map_err(|error| {
            Failure::new(format_args!("the operator to {what}"), "operator failed").detail(error)
        })
    }
}
