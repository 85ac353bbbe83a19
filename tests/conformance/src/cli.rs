//! The command line.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};
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
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes one HTML page of several results: brokers by checks.
    Matrix {
        /// What `--json` has written.
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// The page.
        #[arg(short, long, value_name = "FILE", default_value = "matrix.html")]
        output: PathBuf,
    },
    /// Describes all checks, as markdown.
    Document {
        /// The document; printed where none is named.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The broker.
    #[arg(
        long,
        value_name = "URL",
        default_value = "amqp://guest:guest@localhost:5672/%2f"
    )]
    url: String,
    /// Known deviations: rabbitmq-3.10, rabbitmq-4.0, rabbitmq-4.3, or the path of a file. Without a profile the
    /// specification counts.
    #[arg(long, value_name = "NAME|PATH")]
    profile: Option<String>,
    /// Only checks whose names match one of these: `basic.*`, `*/empty*`.
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    filter: Vec<Glob>,
    /// No checks whose names match one of these.
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    exclude: Vec<Glob>,
    /// Lists the checks and runs none.
    #[arg(long)]
    list: bool,
    /// What the specification recommends counts too, and so does what the broker says it does not do.
    #[arg(long)]
    strict: bool,
    /// Runs each check a second time with its bytes sent one by one.
    #[arg(long)]
    chop: bool,
    /// Runs checks too that hurt a broker which others use: alarms, closed connections.
    #[arg(long)]
    hurt: bool,
    /// A program that does to the broker what no client can, for checks that hurt: run with `raise-alarm`, `clear-alarm`
    /// or `close-connections`, and the virtual host.
    #[arg(long, value_name = "PROGRAM")]
    control: Option<String>,
    /// How many checks run side by side.
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    jobs: usize,
    /// Multiplies every deadline, for brokers that are slow or far away.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    timeout_factor: f64,
    /// Writes the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the results as JUnit's XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Writes all that was sent and received, a file for each check. Of failures it is shown anyway.
    #[arg(long, value_name = "DIRECTORY")]
    transcripts: Option<PathBuf>,
    /// Shows each deviation too, not only what fails.
    #[arg(long)]
    verbose: bool,
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

/// Does what the arguments say, and writes to `out` what people want to know. `control` is the operator where the
/// arguments name none.
///
/// # Errors
/// `out` or a file cannot be written, or a file of results cannot be read.
pub async fn main(
    arguments: Arguments,
    control: Option<Control>,
    out: &mut impl Write,
) -> io::Result<ExitCode> {
    match arguments.command {
        None => check(&arguments.run, control, out).await,
        Some(Command::Matrix { results, output }) => {
            let reports: Vec<Report> = results
                .iter()
                .map(|it| read(it))
                .collect::<Result<_, _>>()?;
            std::fs::write(output, report::matrix(&reports))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Document { output }) => {
            let document = report::document(&checks::all()).map_err(io::Error::other)?;
            match output {
                Some(path) => std::fs::write(path, document)?,
                None => write!(out, "{document}")?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn read(path: &Path) -> io::Result<Report> {
    let text = std::fs::read(path);
    text.and_then(|text| Ok(serde_json::from_slice(&text)?))
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Checks a broker.
async fn check(
    arguments: &RunArguments,
    control: Option<Control>,
    out: &mut impl Write,
) -> io::Result<ExitCode> {
    let all = checks::all();
    let plan = match Plan::new(arguments, &all) {
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
    if checks.is_empty() {
        writeln!(out, "error: no check has such a name")?;
        return Ok(ExitCode::from(USAGE));
    }
    if arguments.list {
        for check in checks {
            writeln!(out, "{:<70} {:<8} {}", check.name, check.level, check.rule)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let broker = match preflight(&plan.target, arguments.timeout_factor).await {
        Ok(broker) => broker,
        Err(unfit) => {
            writeln!(out, "{} cannot be checked: {unfit}", plan.target)?;
            return Ok(ExitCode::from(UNFIT));
        }
    };
    let options = Options {
        jobs: arguments.jobs,
        timeout_factor: arguments.timeout_factor,
        chop: arguments.chop,
        hurt: arguments.hurt,
        control: arguments.control.clone().map(Control::program).or(control),
        ..Options::default()
    };
    let report = run(arguments, &plan, checks, broker.name, &options).await;
    write_files(arguments, &report)?;
    print(arguments, &report, out)?;
    if options.interrupted.get() {
        writeln!(out, "interrupted: not all checks were run")?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(match report.failures().next() {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

fn write_files(arguments: &RunArguments, report: &Report) -> io::Result<()> {
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(report)?)?;
    }
    if let Some(path) = &arguments.junit {
        std::fs::write(path, report::junit(report).map_err(io::Error::other)?)?;
    }
    if let Some(directory) = &arguments.transcripts {
        for result in &report.results {
            let chopped = if result.chopped { ".chopped" } else { "" };
            let path = directory.join(format!("{}{chopped}.txt", result.check));
            std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
            std::fs::write(path, report::failure(result))?;
        }
    }
    Ok(())
}

/// The arguments, checked.
struct Plan {
    target: Target,
    profile: Option<Profile>,
    filter: GlobSet,
    exclude: GlobSet,
}

impl Plan {
    fn new(arguments: &RunArguments, checks: &[Check]) -> Result<Self, Box<dyn std::error::Error>> {
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

async fn run(
    arguments: &RunArguments,
    plan: &Plan,
    checks: Vec<Rc<Check>>,
    broker: String,
    options: &Options,
) -> Report {
    let count = runner::count(&checks, options);
    let bar = progress(count);
    let began = Instant::now();
    let profile = plan.profile.as_ref();
    let strict = arguments.strict;
    let run = runner::run(checks, &plan.target, profile, options, |result| {
        if result.verdict.fails(strict) {
            bar.println(format!("{}: {}", result.verdict, result.check));
        }
        bar.inc(1);
    });
    let results = tokio::select! {
        results = run => results,
        never = interrupt(&options.interrupted) => match never {},
    };
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

/// Begins no further check once the user asks for the end: those that run clean up after themselves.
async fn interrupt(interrupted: &Cell<bool>) -> Infallible {
    if tokio::signal::ctrl_c().await.is_ok() {
        interrupted.set(true);
    }
    std::future::pending().await
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

fn print(arguments: &RunArguments, report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} at {}\n", report.broker, report.target)?;
    writeln!(out, "{}\n", report::table(report))?;
    let shown = |verdict: Verdict| {
        verdict.fails(report.strict) || (arguments.verbose && verdict != Verdict::Passed)
    };
    for result in report.results.iter().filter(|it| shown(it.verdict)) {
        writeln!(out, "{}", report::failure(result))?;
    }
    writeln!(out, "connections and channels ended: {}", report.closings())?;
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
