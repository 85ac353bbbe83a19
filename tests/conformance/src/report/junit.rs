use std::time::Duration;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::{CheckResult, Report, failure};
use crate::verdict::Verdict;

/// The report as JUnit's XML: a suite for each group. What is no failure and no pass either counts as skipped, and says
/// what was found.
///
/// # Errors
/// The XML cannot be written.
pub fn junit(report: &Report) -> Result<String, quick_junit::SerializeError> {
    let mut whole = quick_junit::Report::new(report.broker.clone());
    whole.set_time(Duration::from_secs_f64(report.seconds));
    for group in report.groups() {
        let mut suite = TestSuite::new(group.to_owned());
        let of_group = |result: &&CheckResult| result.group() == group;
        suite.add_test_cases(
            report
                .results
                .iter()
                .filter(of_group)
                .map(|result| case(result, report.strict)),
        );
        whole.add_test_suite(suite);
    }
    whole.to_string()
}

fn case(result: &CheckResult, strict: bool) -> TestCase {
    let mut status = match result.verdict {
        Verdict::NotRun => TestCaseStatus::non_success(NonSuccessKind::Error),
        verdict if verdict.fails(strict) => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Passed | Verdict::Informational => TestCaseStatus::success(),
        _ => TestCaseStatus::skipped(),
    };
    if result.verdict.fails(strict) {
        status.set_type(result.verdict.to_string());
        status.set_description(failure(result));
    }
    status.set_message(result.summary());
    let mut case = TestCase::new(result.label(), status);
    case.set_classname(result.group().to_owned());
    case.set_time(Duration::from_secs_f64(result.seconds));
    case
}
