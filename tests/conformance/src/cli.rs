//! The command line.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use clap::Parser;
use globset::{Glob, GlobSet, GlobSetBuilder};
use indicatif::{ProgressBar, ProgressStyle};

use crate::check::Check;
use crate::checks;
use crate::control::Control;
use crate::preflight::preflight;
use crate::profile::Profile;
use crate::report::{self, Report};
use crate::runner::{self, Options};
use crate::target::Target;
use crate::verdict::Verdict;

/// Holds an AMQP 0-9-1 broker against the specification.
///
/// Exit status: 0 if every check passed, or deviates as the profile knows; 1 if not; 2 for wrong arguments; 3 if there is
/// no broker to check: nobody listens, something else does, or the user is refused.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    /// The broker.
    #[arg(
        long,
        value_name = "URL",
        default_value = "amqp://guest:guest@localhost:5672/%2f"
    )]
    pub url: String,
    /// Known deviations: rabbitmq-3.10, rabbitmq-4.0, rabbitmq-4.3, or the path of a file. Without a profile the
    /// specification counts.
    #[arg(long, value_name = "NAME|PATH")]
    pub profile: Option<String>,
    /// Only checks whose names match one of these: `basic.*`, `*/empty*`.
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    pub filter: Vec<Glob>,
    /// No checks whose names match one of these.
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    pub exclude: Vec<Glob>,
    /// Lists the checks and runs none.
    #[arg(long)]
    pub list: bool,
    /// What the specification recommends counts too, and so does what the broker says it does not do.
    #[arg(long)]
    pub strict: bool,
    /// Runs each check a second time with its bytes sent one by one.
    #[arg(long)]
    pub chop: bool,
    /// Runs checks too that hurt a broker which others use: alarms, closed connections.
    #[arg(long)]
    pub hurt: bool,
    /// A program that does to the broker what no client can, for checks that hurt: run with `raise-alarm`, `clear-alarm`
    /// or `close-connections`.
    #[arg(long, value_name = "PROGRAM")]
    pub control: Option<String>,
    /// How many checks run side by side.
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    pub jobs: usize,
    /// Multiplies every deadline, for brokers that are slow or far away.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub timeout_factor: f64,
    /// Writes the results as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Shows each deviation too, not only what fails.
    #[arg(long)]
    pub verbose: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.01..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("a number from 0.01 to 1000".to_owned()),
    }
}

/// Wrong arguments.
const USAGE: u8 = 2;
/// No broker to check.
const UNFIT: u8 = 3;

/// Does what the arguments say, and writes to `out` what people want to know.
///
/// # Errors
/// `out` or a file cannot be written.
pub async fn main(arguments: Arguments, out: &mut impl Write) -> std::io::Result<ExitCode> {
    let all = checks::all();
    let plan = match Plan::new(&arguments, &all) {
        Ok(plan) => plan,
        Err(error) => {
            writeln!(out, "error: {error}")?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let checks: Vec<Rc<Check>> = all
        .into_iter()
        .filter(|check| plan.wants(check.name))
        .map(Rc::new)
        .collect();
    if arguments.list {
        for check in checks {
            writeln!(out, "{:<70} {:<8} {}", check.name, check.level, check.rule)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if checks.is_empty() {
        writeln!(out, "error: no check has such a name")?;
        return Ok(ExitCode::from(USAGE));
    }
    let broker = match preflight(&plan.target, arguments.timeout_factor).await {
        Ok(broker) => broker,
        Err(unfit) => {
            writeln!(out, "{} cannot be checked: {unfit}", plan.target)?;
            return Ok(ExitCode::from(UNFIT));
        }
    };
    let report = run(&arguments, &plan, checks, broker.name).await;
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    print(&arguments, &report, out)?;
    Ok(match report.failures().next() {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

/// The arguments, checked.
struct Plan {
    target: Target,
    profile: Option<Profile>,
    filter: GlobSet,
    exclude: GlobSet,
}

impl Plan {
    fn new(arguments: &Arguments, checks: &[Check]) -> Result<Self, Box<dyn std::error::Error>> {
        let profile = arguments.profile.as_deref();
        Ok(Self {
            target: Target::parse(&arguments.url)?,
            profile: profile.map(|it| Profile::load(it, checks)).transpose()?,
            filter: globs(&arguments.filter)?,
            exclude: globs(&arguments.exclude)?,
        })
    }

    fn wants(&self, check: &str) -> bool {
        (self.filter.is_empty() || self.filter.is_match(check)) && !self.exclude.is_match(check)
    }
}

fn globs(globs: &[Glob]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob.clone());
    }
    set.build()
}

async fn run(arguments: &Arguments, plan: &Plan, checks: Vec<Rc<Check>>, broker: String) -> Report {
    let options = Options {
        jobs: arguments.jobs,
        timeout_factor: arguments.timeout_factor,
        chop: arguments.chop,
        hurt: arguments.hurt,
        control: arguments.control.clone().map(Control::program),
    };
    let count = runner::count(&checks, &options);
    let bar = progress(count);
    let began = Instant::now();
    let profile = plan.profile.as_ref();
    let strict = arguments.strict;
    let results = runner::run(checks, &plan.target, profile, &options, |result| {
        if result.verdict.fails(strict) {
            bar.println(format!("{}: {}", result.verdict, result.check));
        }
        bar.inc(1);
    })
    .await;
    bar.finish_and_clear();
    Report {
        broker,
        target: plan.target.to_string(),
        profile: arguments.profile.clone(),
        strict,
        seconds: began.elapsed().as_secs_f64(),
        results,
    }
}

/// On a terminal alone.
fn progress(checks: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} checks, {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(checks as u64).with_style(style)
}

fn print(arguments: &Arguments, report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{} at {}\n", report.broker, report.target)?;
    writeln!(out, "{}\n", report::table(report))?;
    let shown = |verdict: Verdict| {
        verdict.fails(report.strict) || (arguments.verbose && verdict != Verdict::Passed)
    };
    for result in report.results.iter().filter(|it| shown(it.verdict)) {
        writeln!(out, "{}", report::failure(result))?;
    }
    let profile = report
        .profile
        .as_deref()
        .unwrap_or("none: the specification");
    writeln!(
        out,
        "{} checks in {:.1} s, profile {profile}: {} do not pass",
        report.results.len(),
        report.seconds,
        report.failures().count()
    )
}
