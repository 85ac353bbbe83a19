use std::fmt::Write as _;

use crate::check::Check;
use crate::profile::{BUILT_IN, Profile, ProfileError};

/// The built-in profiles, by name.
///
/// # Errors
/// One of them is no profile of these checks.
fn profiles(checks: &[Check]) -> Result<Vec<(&'static str, Profile)>, ProfileError> {
    BUILT_IN
        .into_iter()
        .map(|(name, _)| Profile::load(name, checks).map(|profile| (name, profile)))
        .collect()
}

/// All checks with their rules and known deviations, as markdown: `docs/conformance.md`.
///
/// # Errors
/// A built-in profile is none of these checks.
pub fn document(checks: &[Check]) -> Result<String, ProfileError> {
    let profiles = profiles(checks)?;
    let mut out = String::from(HEAD);
    let mut group = "";
    for check in checks {
        if check.group() != group {
            group = check.group();
            let _ = writeln!(out, "\n## {group}");
        }
        let _ = write!(out, "\n### {}\n\n", check.name);
        let _ = writeln!(
            out,
            "- Rule: {} ({}; {})",
            check.rule, check.level, check.source
        );
        let _ = writeln!(out, "- Sends: {}", check.sends);
        let _ = writeln!(out, "- Expects: {}", check.expects);
        if check.hurts {
            let _ = writeln!(out, "- Hurts a shared broker: needs `--hurt`");
        }
        for (name, profile) in &profiles {
            if let Some(deviation) = profile.deviation(check.name) {
                let instead = deviation.instead.join("`, or `");
                let _ = writeln!(out, "- {name}: `{instead}`; {}", deviation.reason);
            }
        }
    }
    Ok(out)
}

const HEAD: &str = "\
<!-- Made by `cargo run -p amqp-conformance -- document -o docs/conformance.md`; a change by hand is lost. -->
# The conformance checks

What `amqp-conformance` holds a broker against, by group: the rule with its level and source, what is sent, what is
expected, and what RabbitMQ is known to do instead.
";

/// How many checks each built-in profile passes, as a table in markdown: part of the README.
///
/// # Errors
/// A built-in profile is none of these checks.
pub fn summary(checks: &[Check]) -> Result<String, ProfileError> {
    let mut out =
        String::from("| broker | checks | pass | known deviations |\n|---|---|---|---|\n");
    for (_, profile) in profiles(checks)? {
        let (all, deviations) = (checks.len(), profile.deviations().len());
        let pass = all - deviations;
        let _ = writeln!(
            out,
            "| {} | {all} | {pass} | {deviations} |",
            profile.broker
        );
    }
    Ok(out)
}
