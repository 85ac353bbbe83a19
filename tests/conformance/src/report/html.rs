use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{CheckResult, Report, failure};
use crate::verdict::Verdict;

/// Brokers by checks, as one page without anything from elsewhere. Each cell leads to what was found and the transcript.
pub fn matrix(reports: &[Report]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "AMQP 0-9-1 conformance" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "AMQP 0-9-1 conformance" }
                    (brokers(reports))
                    (checks(reports))
                }
                @for (column, report) in reports.iter().enumerate() {
                    @for (check, results) in &by_check(report) {
                        (details(column, report, check, results))
                    }
                }
            }
        }
    };
    page.into_string()
}

const STYLE: &str = "
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: left; vertical-align: top; }
thead th { position: sticky; top: 0; background: #fff; }
tr.group th { background: #eee; }
td.number { text-align: right; }
td a { color: inherit; }
.passed, .informational { background: #d9f2d9; }
.deviation { background: #fdf3cd; }
.unimplemented, .non-strict, .not-run { background: #fde0c4; }
.failed, .stale-deviation { background: #f8c9c9; }
section { display: none; }
section:target { display: block; position: fixed; top: 0; right: 0; bottom: 0; width: min(60em, 90%);
  overflow: auto; background: #fff; border-left: 2px solid #888; padding: 1em; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
";

/// A line for each broker.
fn brokers(reports: &[Report]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "broker" } th { "profile" } th { "checks" }
                @for verdict in Verdict::ALL { th { (verdict) } }
                th { "closings" }
            } }
            tbody { @for report in reports { tr {
                td { (report.broker) }
                td { (report.profile.as_deref().unwrap_or("none")) }
                td class="number" { (report.results.len()) }
                @for verdict in Verdict::ALL { td class="number" { (report.count(verdict)) } }
                td { (report.closings()) }
            } } }
        }
    }
}

/// Checks by brokers.
fn checks(reports: &[Report]) -> Markup {
    let columns: Vec<BTreeMap<&str, Vec<&CheckResult>>> = reports.iter().map(by_check).collect();
    html! {
        table {
            thead { tr {
                th { "check" }
                @for report in reports { th { (report.broker) } }
            } }
            tbody { @for (group, names) in groups(reports) {
                tr class="group" { th colspan=(reports.len() + 1) { (group) } }
                @for name in names { tr {
                    td { (name) }
                    @for (column, results) in columns.iter().enumerate() {
                        (cell(column, name, results.get(name)))
                    }
                } }
            } }
        }
    }
}

/// The groups with their checks, in the order of the reports.
fn groups(reports: &[Report]) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for result in reports.iter().flat_map(|report| &report.results) {
        let at = groups
            .iter()
            .position(|(group, _)| *group == result.group());
        let at = at.unwrap_or_else(|| {
            groups.push((result.group(), Vec::new()));
            groups.len() - 1
        });
        let names = &mut groups[at].1;
        if !names.contains(&result.check.as_str()) {
            names.push(&result.check);
        }
    }
    groups
}

fn cell(column: usize, name: &str, results: Option<&Vec<&CheckResult>>) -> Markup {
    // The verdicts are in the order of their weight.
    let worst = results.and_then(|them| them.iter().max_by_key(|it| it.verdict));
    html! {
        @match worst {
            None => td {},
            Some(result) => td class=(class(result.verdict)) {
                a href=(format!("#{}", anchor(column, name))) title=(result.summary()) { (result.verdict) }
            },
        }
    }
}

fn details(column: usize, report: &Report, check: &str, results: &[&CheckResult]) -> Markup {
    html! {
        section id=(anchor(column, check)) {
            p { a href="#" { "close" } }
            h2 { (check) }
            p { (report.broker) }
            @for result in results {
                pre class=(class(result.verdict)) { (failure(result)) }
            }
        }
    }
}

fn anchor(column: usize, check: &str) -> String {
    format!("{column}/{check}")
}

fn class(verdict: Verdict) -> String {
    verdict.to_string().replace(' ', "-")
}

/// A check that was chopped too has two results.
fn by_check(report: &Report) -> BTreeMap<&str, Vec<&CheckResult>> {
    let mut checks: BTreeMap<&str, Vec<&CheckResult>> = BTreeMap::new();
    for result in &report.results {
        checks.entry(&result.check).or_default().push(result);
    }
    checks
}
