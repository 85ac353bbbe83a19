//! What a check is, and how it is written down.

use std::fmt;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::failure::Failure;

/// A named check of one rule.
pub struct Check {
    /// Its name: `GROUP/what-is-checked`, where the group is a class, `basic`, or a method, `basic.publish`. It stays the
    /// same, because profiles, reports and people refer to it.
    pub name: &'static str,
    /// How much the rule binds.
    pub level: Level,
    /// Where the rule is from.
    pub source: Source,
    /// The rule in our own words.
    pub rule: &'static str,
    /// What is sent.
    pub sends: &'static str,
    /// What is expected.
    pub expects: &'static str,
    /// Whether it would hurt a broker that others use: it then needs `--hurt`, and runs alone.
    pub hurts: bool,
    /// How long it may take at most, cleaning up not counted.
    pub deadline: Duration,
    run: Box<dyn Run>,
}

/// How much a rule binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A MUST of the specification, or what follows from one.
    Must,
    /// A SHOULD of the specification: not to keep it is non-strict.
    Should,
    /// An extension, or a promise, of RabbitMQ.
    #[serde(rename = "rabbitmq")]
    RabbitMq,
    /// The specification is silent: what the broker does is observed. It must answer at all.
    Silent,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::RabbitMq => "RabbitMQ",
            Self::Silent => "silent",
        })
    }
}

/// Where a rule is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The machine-readable specification of 0-9-1: class, method or field, and the rule's name where it has one:
    /// `basic.qos.prefetch-size`, `basic.qos rule 01`.
    Spec(&'static str),
    /// The text of the specification, by section: `4.2.3 General Frame Format`.
    Text(&'static str),
    /// A document of RabbitMQ, by title: `Consumer Acknowledgements and Publisher Confirms`.
    RabbitMq(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(rule) => write!(f, "AMQP 0-9-1, {rule}"),
            Self::Text(section) => write!(f, "AMQP 0-9-1, section {section}"),
            Self::RabbitMq(title) => write!(f, "RabbitMQ, {title}"),
        }
    }
}

/// How long a check may take unless it says otherwise.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Begins a check: `check("basic.get/empty").must(..).sends(..).expects(..).run(async |cx| ..)`.
pub fn check(name: &'static str) -> Builder {
    Builder {
        name,
        level: Level::Must,
        source: Source::Spec(""),
        rule: "",
        sends: "",
        expects: "",
        hurts: false,
        deadline: DEADLINE,
    }
}

/// A check to be.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Builder {
    name: &'static str,
    level: Level,
    source: Source,
    rule: &'static str,
    sends: &'static str,
    expects: &'static str,
    hurts: bool,
    deadline: Duration,
}

impl Builder {
    /// A rule that binds.
    pub fn must(self, source: Source, rule: &'static str) -> Self {
        self.rule(Level::Must, source, rule)
    }

    /// A recommendation.
    pub fn should(self, source: Source, rule: &'static str) -> Self {
        self.rule(Level::Should, source, rule)
    }

    /// Where the specification is silent: what it does not say.
    pub fn silent(self, source: Source, question: &'static str) -> Self {
        self.rule(Level::Silent, source, question)
    }

    /// An extension or a promise of RabbitMQ.
    pub fn rabbitmq(self, title: &'static str, rule: &'static str) -> Self {
        self.rule(Level::RabbitMq, Source::RabbitMq(title), rule)
    }

    fn rule(mut self, level: Level, source: Source, rule: &'static str) -> Self {
        (self.level, self.source, self.rule) = (level, source, rule);
        self
    }

    /// What is sent.
    pub fn sends(mut self, sends: &'static str) -> Self {
        self.sends = sends;
        self
    }

    /// What is expected.
    pub fn expects(mut self, expects: &'static str) -> Self {
        self.expects = expects;
        self
    }

    /// It would hurt a broker that others use.
    pub fn hurts(mut self) -> Self {
        self.hurts = true;
        self
    }

    /// How long it may take at most; [`DEADLINE`] unless said.
    pub fn deadline(mut self, seconds: u64) -> Self {
        self.deadline = Duration::from_secs(seconds);
        self
    }

    /// What it does.
    pub fn run<F>(self, run: F) -> Check
    where
        F: AsyncFn(&mut Context) -> Result<(), Failure> + 'static,
    {
        Check {
            name: self.name,
            level: self.level,
            source: self.source,
            rule: self.rule,
            sends: self.sends,
            expects: self.expects,
            hurts: self.hurts,
            deadline: self.deadline,
            run: Box::new(run),
        }
    }
}

impl Check {
    /// The part of the name before the slash.
    pub fn group(&self) -> &'static str {
        self.name.split('/').next().unwrap_or(self.name)
    }

    /// The class: the part of the group before the dot.
    pub fn class(&self) -> &'static str {
        let group = self.group();
        group.split('.').next().unwrap_or(group)
    }

    pub(crate) async fn run(&self, context: &mut Context) -> Result<(), Failure> {
        self.run.run(context).await
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

/// An async closure behind a pointer.
trait Run {
    fn run<'a>(&'a self, context: &'a mut Context) -> LocalBoxFuture<'a, Result<(), Failure>>;
}

impl<F: AsyncFn(&mut Context) -> Result<(), Failure>> Run for F {
    fn run<'a>(&'a self, context: &'a mut Context) -> LocalBoxFuture<'a, Result<(), Failure>> {
        Box::pin(self(context))
    }
}
