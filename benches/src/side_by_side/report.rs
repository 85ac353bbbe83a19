//! Tables in Markdown, data in JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::ValueEnum;

use super::Part;
use super::results::{Results, Row};
use super::spread::{Spread, short};
use super::target::Target;
use crate::load::Failure;

/// Writes a part's own files, and prints whether its targets are reached.
pub(super) fn write(directory: &Path, results: &Results) -> Result<(), Failure> {
    let part = &results.part;
    let mut json = serde_json::to_string_pretty(results)?;
    json.push('\n');
    fs::write(directory.join(format!("{part}.json")), json)?;
    fs::write(directory.join(format!("{part}.md")), page(results)?)?;
    eprintln!("{}", targets(&results.measured.targets)?);
    Ok(())
}

/// Writes the page that sums up the parts whose results are there.
pub(super) fn index(directory: &Path) -> Result<(), Failure> {
    let mut page = String::from(
        "# Results\n\nWritten by `scripts/bench`; each part has its own page, and its data beside it in JSON.\n\n\
         | part | measured | targets reached |\n|---|---|---|\n",
    );
    let mut all = Vec::new();
    for part in Part::value_variants() {
        let name = part.name();
        let Ok(json) = fs::read_to_string(directory.join(format!("{name}.json"))) else {
            continue;
        };
        let results: Results = serde_json::from_str(&json)?;
        let targets = results.measured.targets;
        let reached = targets.iter().filter(|target| target.reached).count();
        let of = targets.len();
        writeln!(
            page,
            "| [{name}]({name}.md) | {} | {reached} of {of} |",
            results.date
        )?;
        all.extend(targets);
    }
    write!(page, "\n{}", targets(&all)?)?;
    fs::write(directory.join("README.md"), page)?;
    Ok(())
}

fn page(results: &Results) -> Result<String, Failure> {
    let mut page = String::new();
    let versions: Vec<_> = results
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let machine = &results.machine;
    writeln!(page, "# {}\n", results.part)?;
    writeln!(
        page,
        "{}, on {} x {}, {}. {} interleaved rounds: median (least..greatest).\n{}.\n",
        results.date,
        machine.cores,
        machine.processor,
        machine.kernel,
        results.rounds,
        versions.join(", ")
    )?;
    for note in &results.measured.notes {
        writeln!(page, "{note}\n")?;
    }
    page.push_str(&targets(&results.measured.targets)?);
    page.push_str(&rows(&results.measured.rows)?);
    for plot in &results.measured.plots {
        writeln!(page, "\n![{}]({})", plot.title, plot.file)?;
    }
    Ok(page)
}

fn targets(targets: &[Target]) -> Result<String, Failure> {
    let mut table = String::new();
    if targets.is_empty() {
        return Ok(table);
    }
    writeln!(table, "| work | what | target | measured | reached |")?;
    writeln!(table, "|---|---|---|---|---|")?;
    for target in targets {
        let reached = if target.reached { "yes" } else { "**no**" };
        let measured = short(target.measured);
        let Target {
            work, what, bound, ..
        } = target;
        writeln!(
            table,
            "| {work} | {what} | {bound} | {measured} | {reached} |"
        )?;
    }
    table.push('\n');
    Ok(table)
}

/// A column: its title, and what stands in it.
type Column = (&'static str, fn(&Row) -> Option<String>);

const COLUMNS: [Column; 12] = [
    ("work", |row| Some(row.work.clone())),
    ("by", |row| Some(row.client.clone())),
    ("1,000/s", |row| spread(row.rate, 1e-3)),
    ("CPU ns", |row| spread(row.cpu_ns, 1.0)),
    ("CPU, in ours", |row| spread(row.cpu_ratio, 1.0)),
    ("instructions", |row| row.instructions.map(short)),
    ("allocations", |row| row.allocations.map(short)),
    ("system calls", |row| row.system_calls.map(short)),
    ("p50 µs", |row| spread(row.p50_ns, 1e-3)),
    ("p99 µs", |row| spread(row.p99_ns, 1e-3)),
    ("our p50 in its", |row| spread(row.p50_ratio, 1.0)),
    ("peak MB", |row| spread(row.peak_memory, 1e-6)),
];

fn spread(spread: Option<Spread>, unit: f64) -> Option<String> {
    spread.map(|Spread { median, min, max }| {
        Spread {
            median: median * unit,
            min: min * unit,
            max: max * unit,
        }
        .to_string()
    })
}

/// With the columns alone in which something stands.
fn rows(rows: &[Row]) -> Result<String, Failure> {
    let mut table = String::new();
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(_, cell)| rows.iter().any(|row| cell(row).is_some()))
        .collect();
    if rows.is_empty() {
        return Ok(table);
    }
    for (title, _) in &columns {
        write!(table, "| {title} ")?;
    }
    writeln!(table, "|\n{}|", "|---".repeat(columns.len()))?;
    for row in rows {
        for (_, cell) in &columns {
            write!(table, "| {} ", cell(row).unwrap_or_default())?;
        }
        table.push_str("|\n");
    }
    Ok(table)
}
