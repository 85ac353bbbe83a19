//! Everything in the corpora and all that was ever found, through each target, without a fuzzer.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use amqp_fuzz::{Difference, EXPLAINED, TARGETS, explain};

/// As much as a main thread has, where libFuzzer runs the targets.
const STACK: usize = 8 << 20;

/// The memory that a target looks at is that of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, target: &str) -> Vec<PathBuf> {
    let folder = root().join(folder).join(target);
    // A target of which nothing was found has no regressions.
    let entries = fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    files
}

fn replay(target: &str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, run) = TARGETS
        .into_iter()
        .find(|(name, _)| *name == target)
        .expect("one of the targets");
    let seeds = files("corpus", target);
    assert!(!seeds.is_empty(), "no corpus for {target}");
    for file in seeds.into_iter().chain(files("regressions", target)) {
        let input = fs::read(&file).expect("readable");
        let done = on_a_main_stack(move || run(&input));
        assert!(done.is_some(), "{}: see above", file.display());
    }
    // The least that a fuzzer begins with.
    run(&[]);
}

/// Runs in a thread of its own; none if it panics.
fn on_a_main_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.spawn(run).expect("a thread").join().ok()
}

macro_rules! replay {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*

        /// A target that nobody replays, fuzzes or knows would be none.
        #[test]
        fn every_target_is_here_and_has_its_program() {
            let here = BTreeSet::from([$(OsString::from(stringify!($target))),*]);
            let listed: BTreeSet<_> = TARGETS.iter().map(|(name, _)| OsString::from(name)).collect();
            assert_eq!(here, listed);
            assert_eq!(names("fuzz_targets"), listed);
            assert_eq!(names("corpus"), listed);
            assert!(names("regressions").is_subset(&listed));
        }
    };
}

replay! {
    frames methods properties tables content round_trip uri connection differential
}

/// The files and folders in a folder, without what follows the point.
fn names(folder: &str) -> BTreeSet<OsString> {
    let entries = fs::read_dir(root().join(folder)).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths
        .filter_map(|path| path.file_stem().map(OsString::from))
        .collect()
}

/// What explains nothing any more is to go.
#[test]
fn every_explained_difference_is_met() {
    let mut met = BTreeSet::new();
    for file in files("corpus", "differential") {
        let input = fs::read(&file).expect("readable");
        let difference = on_a_main_stack(move || explain(&input));
        if let Some(Difference::Explained(explained)) = difference {
            met.insert(explained.name);
        }
    }
    let all: BTreeSet<_> = EXPLAINED.iter().map(|explained| explained.name).collect();
    assert_eq!(met, all);
}
