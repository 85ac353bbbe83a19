//! Profiles: the known deviations of a broker, as data.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::check::Check;

/// The known deviations of a broker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Which broker this is, for people: `RabbitMQ 4.0`.
    pub broker: String,
    #[serde(default)]
    deviation: Vec<Deviation>,
}

/// One check that the broker is known not to pass.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The check's name.
    pub check: String,
    /// What the broker does instead: what the report says was found. Several where it is up to timing.
    #[serde(deserialize_with = "one_or_several")]
    pub instead: Vec<String>,
    /// Why, since when, or what it means.
    pub reason: String,
}

impl Deviation {
    /// Whether this is what the broker is known to do instead.
    pub fn covers(&self, found: &str) -> bool {
        self.instead.iter().any(|it| it == found)
    }
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Neither a built-in name nor a file.
    #[error(
        "there is no profile {name}: the built-in ones are {known}, anything else is the path of a file ({error})"
    )]
    NotFound {
        /// What was asked for.
        name: String,
        /// The built-in names.
        known: String,
        /// What the system says of the file.
        error: std::io::Error,
    },
    /// Not what a profile looks like.
    #[error("the profile {name} is not one: {error}")]
    Toml {
        /// Which one.
        name: String,
        /// Where and what.
        error: Box<toml::de::Error>,
    },
    /// It names a check that does not exist.
    #[error("the profile {name} knows a deviation from {check}, which is no check")]
    UnknownCheck {
        /// Which profile.
        name: String,
        /// The name in it.
        check: String,
    },
    /// It names a check twice.
    #[error("the profile {name} has {check} twice")]
    Twice {
        /// Which profile.
        name: String,
        /// The name in it.
        check: String,
    },
}

/// The profiles that come with the program: name and text.
pub const BUILT_IN: [(&str, &str); 3] = [
    (
        "rabbitmq-3.10",
        include_str!("../profiles/rabbitmq-3.10.toml"),
    ),
    (
        "rabbitmq-4.0",
        include_str!("../profiles/rabbitmq-4.0.toml"),
    ),
    (
        "rabbitmq-4.3",
        include_str!("../profiles/rabbitmq-4.3.toml"),
    ),
];

impl Profile {
    /// A built-in profile by its name, or a file by its path.
    ///
    /// # Errors
    /// There is none, it cannot be read, or it names what is no check.
    pub fn load(name: &str, checks: &[Check]) -> Result<Self, ProfileError> {
        let text = match BUILT_IN.iter().find(|(it, _)| *it == name) {
            Some((_, text)) => (*text).to_owned(),
            None => std::fs::read_to_string(Path::new(name)).map_err(|error| {
                ProfileError::NotFound {
                    name: name.to_owned(),
                    known: BUILT_IN.map(|(it, _)| it).join(", "),
                    error,
                }
            })?,
        };
        Self::parse(name, &text, checks)
    }

    /// A profile from its text.
    ///
    /// # Errors
    /// It is no profile, or names what is no check, or a check twice.
    pub fn parse(name: &str, text: &str, checks: &[Check]) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError::Toml {
            name: name.to_owned(),
            error: Box::new(error),
        })?;
        let mut seen = BTreeMap::new();
        for deviation in &profile.deviation {
            let name = name.to_owned();
            let check = deviation.check.clone();
            if !checks.iter().any(|it| it.name == check) {
                return Err(ProfileError::UnknownCheck { name, check });
            }
            if seen.insert(&deviation.check, ()).is_some() {
                return Err(ProfileError::Twice { name, check });
            }
        }
        Ok(profile)
    }

    /// The known deviation from this check.
    pub fn deviation(&self, check: &str) -> Option<&Deviation> {
        self.deviation.iter().find(|it| it.check == check)
    }

    /// All of them, in the order of the file.
    pub fn deviations(&self) -> &[Deviation] {
        &self.deviation
    }
}

/// `"a"` or `["a", "b"]`.
fn one_or_several<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Either::deserialize(from)? {
        Either::One(one) => vec![one],
        Either::Several(several) => several,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Source, check};

    fn checks() -> Vec<Check> {
        let made_up = |name| {
            check(name)
                .must(Source::Spec("none"), "made up")
                .run(async |_| Ok(()))
        };
        vec![made_up("x/a"), made_up("x/b")]
    }

    fn parse(deviations: &str) -> Result<Profile, ProfileError> {
        Profile::parse("p", &format!("broker = \"B\"\n{deviations}"), &checks())
    }

    #[test]
    fn deviations_by_check() {
        let profile = parse(
            "[[deviation]]\ncheck = \"x/a\"\ninstead = \"silence\"\nreason = \"r\"\n\
             [[deviation]]\ncheck = \"x/b\"\ninstead = [\"reset\", \"end of stream\"]\nreason = \"r\"",
        );
        let profile = profile.expect("a profile");
        let covers =
            |check: &str, found| profile.deviation(check).is_some_and(|it| it.covers(found));
        assert!(covers("x/a", "silence"));
        assert!(!covers("x/a", "silenc"));
        assert!(covers("x/b", "reset") && covers("x/b", "end of stream"));
        assert!(profile.deviation("x/c").is_none());
    }

    #[test]
    fn what_is_no_profile() {
        let one = "[[deviation]]\ncheck = \"x/a\"\ninstead = \"silence\"\nreason = \"r\"\n";
        let twice = parse(&one.repeat(2));
        assert!(matches!(twice, Err(ProfileError::Twice { check, .. }) if check == "x/a"));
        let unknown = parse(&one.replace("x/a", "x/c"));
        assert!(matches!(unknown, Err(ProfileError::UnknownCheck { check, .. }) if check == "x/c"));
        let misspelt = parse(&one.replace("reason", "raison"));
        assert!(matches!(misspelt, Err(ProfileError::Toml { .. })));
        let missing = Profile::load("no/such/file", &checks());
        assert!(matches!(missing, Err(ProfileError::NotFound { .. })));
    }
}
