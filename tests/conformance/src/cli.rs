//! The command line.

use std::cell::Cell;
use std::fs::OpenOptions;
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
use crate::report::{self, CheckResult, Report};
use crate::runner::{self, BROKER_GONE, Options};
use crate::target::{Target, TargetError};
use crate::verdict::Verdict;

/// Holds an AMQP 0-9-1 broker against the specification.
///
/// Exit status: 0 if every check passed, or deviates as the profile knows; 1 if not, or if the run was interrupted; 2 for
/// wrong arguments and files that cannot be read or written; 3 if there is no broker to check (nobody listens, something
/// else does, the user is refused), or it went away for good. Ctrl-C and SIGTERM let the checks that run clean up after
/// themselves; a second one ends at once.
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
    /// Lists the checks, with those that hurt marked, and runs none.
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
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = jobs)]
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
    /// Writes all that was sent and received, a file for each check: DIRECTORY/group/name.txt. Of failures it is shown
    /// anyway.
    #[arg(long, value_name = "DIRECTORY")]
    transcripts: Option<PathBuf>,
    /// Shows each deviation too, not only what fails.
    #[arg(long)]
    verbose: bool,
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(jobs) if (1..=1000).contains(&jobs) => Ok(jobs),
        _ => Err("a number from 1 to 1000".to_owned()),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.01..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("a number from 0.01 to 1000".to_owned()),
    }
}

/// Wrong arguments, or files that cannot be read or written.
const USAGE: u8 = 2;
/// No broker to check.
const UNFIT: u8 = 3;

/// What is said on standard error instead of a report, with the exit status that goes with it.
struct Complaint {
    status: ExitCode,
    text: String,
}

impl Complaint {
    fn usage(text: impl std::fmt::Display) -> Self {
        Self::new(USAGE, text)
    }

    fn unfit(text: impl std::fmt::Display) -> Self {
        Self::new(UNFIT, text)
    }

    /// What cannot be done with a file.
    fn file(path: &Path, error: impl std::fmt::Display) -> Self {
        Self::usage(format_args!("{}: {error}", path.display()))
    }

    fn new(status: u8, text: impl std::fmt::Display) -> Self {
        Self {
            status: status.into(),
            text: text.to_string(),
        }
    }
}

/// The output cannot be written.
impl From<io::Error> for Complaint {
    fn from(error: io::Error) -> Self {
        Self::new(1, format_args!("the report cannot be written: {error}"))
    }
}

/// Does what the arguments say, writes to `out` what people want to know, and to standard error why it cannot. `control`
/// is the operator where the arguments name none.
pub async fn main(
    arguments: Arguments,
    control: Option<Control>,
    out: &mut impl Write,
) -> ExitCode {
    let done = match arguments.command {
        None => check(&arguments.run, control, out).await,
        Some(Command::Matrix { results, output }) => matrix(&results, &output),
        Some(Command::Document { output }) => document(output.as_deref(), out),
    };
    done.unwrap_or_else(|complaint| {
        eprintln!("error: {}", complaint.text);
        complaint.status
    })
}

fn matrix(results: &[PathBuf], output: &Path) -> Result<ExitCode, Complaint> {
    let reports: Vec<Report> = results
        .iter()
        .map(|it| read(it))
        .collect::<Result<_, _>>()?;
    write(output, report::matrix(&reports))?;
    Ok(ExitCode::SUCCESS)
}

fn document(output: Option<&Path>, out: &mut impl Write) -> Result<ExitCode, Complaint> {
    let document = report::document(&checks::all()).map_err(Complaint::usage)?;
    match output {
        Some(path) => write(path, document)?,
        None => write!(out, "{document}")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Report, Complaint> {
    let text = std::fs::read(path).map_err(|error| Complaint::file(path, error))?;
    serde_json::from_slice(&text).map_err(|error| {
        let error = format!("not a report that --json has written: {error}");
        Complaint::file(path, error)
    })
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Complaint> {
    std::fs::write(path, content).map_err(|error| Complaint::file(path, error))
}

/// Checks a broker.
async fn check(
    arguments: &RunArguments,
    control: Option<Control>,
    out: &mut impl Write,
) -> Result<ExitCode, Complaint> {
    let all = checks::all();
    let plan = Plan::new(arguments, &all)?;
    let (checks, left_out): (Vec<Check>, Vec<Check>) = all
        .into_iter()
        .filter(|check| plan.wants(check.name))
        .partition(|check| arguments.list || arguments.hurt || !check.hurts);
    if checks.is_empty() && left_out.is_empty() {
        return Err(Complaint::usage("no check is left"));
    }
    if arguments.list {
        for check in checks {
            let hurts = if check.hurts { "hurts" } else { "" };
            let (name, level, rule) = (check.name, check.level, check.rule);
            writeln!(out, "{name:<70} {level:<8} {hurts:<5} {rule}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if checks.is_empty() {
        return Err(Complaint::usage(
            "all these checks hurt a broker which others use: --hurt runs them",
        ));
    }
    let target = Target::parse(&arguments.url).map_err(|error| match error {
        TargetError::Host { .. } => Complaint::unfit(error),
        error => Complaint::usage(error),
    })?;
    prepare_files(arguments, &checks)?;
    let broker = preflight(&target, arguments.timeout_factor)
        .await
        .map_err(|unfit| Complaint::unfit(format_args!("{target} cannot be checked: {unfit}")))?;
    let options = Options {
        jobs: arguments.jobs,
        timeout_factor: arguments.timeout_factor,
        chop: arguments.chop,
        hurt: arguments.hurt,
        control: arguments.control.clone().map(Control::program).or(control),
        ..Options::default()
    };
    let checks = checks.into_iter().map(Rc::new).collect();
    let report = run(arguments, &plan, &target, checks, broker.name, &options).await?;
    print(arguments, &report, left_out.len(), out)?;
    write_files(arguments, &report)?;
    Ok(status(&report))
}

fn status(report: &Report) -> ExitCode {
    let gone = |it: &CheckResult| it.found.as_deref() == Some(BROKER_GONE);
    if report.not_run().any(gone) {
        return ExitCode::from(UNFIT);
    }
    match report.failures().next() {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    }
}

/// Whether the files can be written is known before the run, not after it.
fn prepare_files(arguments: &RunArguments, checks: &[Check]) -> Result<(), Complaint> {
    for path in [&arguments.json, &arguments.junit].into_iter().flatten() {
        // What an earlier run wrote stays until there is something new.
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| Complaint::file(path, error))?;
    }
    if let Some(directory) = &arguments.transcripts {
        for check in checks {
            let path = directory.join(check.group());
            std::fs::create_dir_all(&path).map_err(|error| Complaint::file(&path, error))?;
        }
    }
    Ok(())
}

fn write_files(arguments: &RunArguments, report: &Report) -> Result<(), Complaint> {
    if let Some(path) = &arguments.json {
        let json = serde_json::to_vec_pretty(report);
        write(path, json.map_err(|error| Complaint::file(path, error))?)?;
    }
    if let Some(path) = &arguments.junit {
        let xml = report::junit(report);
        write(path, xml.map_err(|error| Complaint::file(path, error))?)?;
    }
    if let Some(directory) = &arguments.transcripts {
        for result in &report.results {
            let chopped = if result.chopped { ".chopped" } else { "" };
            let path = directory.join(format!("{}{chopped}.txt", result.check));
            write(&path, report::failure(result))?;
        }
    }
    Ok(())
}

/// The arguments, checked.
struct Plan {
    profile: Option<Profile>,
    filter: GlobSet,
    exclude: GlobSet,
}

impl Plan {
    fn new(arguments: &RunArguments, checks: &[Check]) -> Result<Self, Complaint> {
        let profile = arguments.profile.as_deref();
        Ok(Self {
            profile: profile
                .map(|it| Profile::load(it, checks))
                .transpose()
                .map_err(Complaint::usage)?,
            filter: globs(&arguments.filter, checks)?,
            exclude: globs(&arguments.exclude, checks)?,
        })
    }

    fn wants(&self, check: &str) -> bool {
        (self.filter.is_empty() || self.filter.is_match(check)) && !self.exclude.is_match(check)
    }
}

/// Each of them has to match a check: a name that is spelt wrong is not passed over.
fn globs(globs: &[Glob], checks: &[Check]) -> Result<GlobSet, Complaint> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let matcher = glob.compile_matcher();
        if !checks.iter().any(|check| matcher.is_match(check.name)) {
            return Err(Complaint::usage(format_args!(
                "no check has such a name: {glob}"
            )));
        }
        set.add(glob.clone());
    }
    set.build().map_err(Complaint::usage)
}

async fn run(
    arguments: &RunArguments,
    plan: &Plan,
    target: &Target,
    checks: Vec<Rc<Check>>,
    broker: String,
    options: &Options,
) -> Result<Report, Complaint> {
    let count = runner::count(&checks, options);
    let bar = progress(count);
    let began = Instant::now();
    let profile = plan.profile.as_ref();
    let strict = arguments.strict;
    let run = runner::run(checks, target, profile, options, |result| {
        if result.verdict.fails(strict) {
            bar.println(format!("{}: {}", result.verdict, result.check));
        }
        bar.inc(1);
    });
    let results = tokio::select! {
        results = run => Ok(results),
        error = interrupt(&options.interrupted) => Err(error),
    };
    bar.finish_and_clear();
    let results = results?;
    Ok(Report {
        broker,
        target: target.to_string(),
        profile: arguments.profile.clone(),
        strict,
        seconds: began.elapsed().as_secs_f64(),
        results,
    })
}

/// Begins no further check once the user asks for the end: those that run clean up after themselves. Whoever asks again
/// does not want to wait for that.
async fn interrupt(interrupted: &Cell<bool>) -> Complaint {
    if let Err(error) = asked_for_the_end().await {
        eprintln!("Ctrl-C will not be heard: {error}");
        return std::future::pending().await;
    }
    interrupted.set(true);
    eprintln!("interrupted: what runs cleans up; once more to end at once");
    match asked_for_the_end().await {
        Ok(()) => Complaint::new(1, "interrupted twice: not everything was cleaned up"),
        Err(_) => std::future::pending().await,
    }
}

/// Ctrl-C, or SIGTERM.
async fn asked_for_the_end() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
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

fn print(
    arguments: &RunArguments,
    report: &Report,
    left_out: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{} at {}\n", report.broker, report.target)?;
    writeln!(out, "{}\n", report::table(report))?;
    let shown = |verdict: Verdict| match verdict {
        Verdict::Passed | Verdict::NotRun => false,
        verdict => arguments.verbose || verdict.fails(report.strict),
    };
    for result in report.results.iter().filter(|it| shown(it.verdict)) {
        writeln!(out, "{}", report::failure(result))?;
    }
    let not_run = report.not_run().count();
    if let Some(why) = report.not_run().find_map(|it| it.found.as_deref()) {
        writeln!(out, "not run: {not_run} checks, for this reason: {why}")?;
    }
    if left_out > 0 {
        writeln!(
            out,
            "left out: {left_out} checks that hurt a broker which others use; --hurt runs them"
        )?;
    }
    writeln!(out, "connections and channels ended: {}", report.closings())?;
    let profile = report
        .profile
        .as_deref()
        .unwrap_or("none: the specification");
    writeln!(
        out,
        "{} checks in {:.1} s, profile {profile}: {} do not pass",
        report.results.len() - not_run,
        report.seconds,
        report.failures().count() - not_run
    )
}
