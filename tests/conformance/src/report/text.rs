use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{CheckResult, Report};
use crate::verdict::Verdict;

/// Verdicts by group.
pub fn table(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["group".to_owned(), "checks".to_owned()];
    header.extend(Verdict::ALL.map(|verdict| verdict.to_string()));
    table.set_header(header);
    for name in report.groups() {
        let of_group = |result: &CheckResult| result.group() == name;
        table.add_row(row(name, report, of_group));
    }
    table.add_row(row("all", report, |_| true));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn row(name: &str, report: &Report, wanted: impl Fn(&CheckResult) -> bool) -> Vec<String> {
    let results: Vec<&CheckResult> = report.results.iter().filter(|it| wanted(it)).collect();
    let mut row = vec![name.to_owned(), results.len().to_string()];
    row.extend(Verdict::ALL.map(|verdict| {
        match results.iter().filter(|it| it.verdict == verdict).count() {
            0 => String::new(),
            count => count.to_string(),
        }
    }));
    row
}

/// All about one result: rule, expectation, what came, transcript.
pub fn failure(result: &CheckResult) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: {}", result.verdict, result.label());
    let _ = writeln!(
        out,
        "  rule      {} [{}; {}]",
        result.rule, result.level, result.source
    );
    let lines = [
        ("expected", &result.expected),
        ("found", &result.found),
        ("detail", &result.detail),
        ("observed", &result.observed),
        ("reason", &result.reason),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            let _ = writeln!(out, "  {name:9} {value}");
        }
    }
    if let (Some(instead), Verdict::StaleDeviation) = (&result.instead, result.verdict) {
        let _ = writeln!(out, "  profile   {}", instead.join(", or "));
    }
    for ended in &result.endings {
        let _ = writeln!(out, "  ended     {ended}");
    }
    for line in result.transcript.lines() {
        let _ = writeln!(out, "  | {line}");
    }
    out
}
