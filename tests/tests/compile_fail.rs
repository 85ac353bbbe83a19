//! What must not compile: mixing the modes of a channel, and what a broker answers by ending the connection.
//!
//! Each file under `compile_fail/` is compiled against the client that is built already. `//~` at a line's end says
//! which error is expected there, by its code or a part of its message; there may be no others. Compilers word their
//! errors anew from release to release, so no more than that is compared.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn misuse_does_not_compile() {
    let compiler = Compiler::find();
    let mut cases = 0;
    for entry in fs::read_dir(directory()).expect("the cases are there") {
        let file = entry.expect("the cases are there").path();
        let source = fs::read_to_string(&file).expect("a case can be read");
        let expected: Vec<(usize, &str)> = source
            .lines()
            .enumerate()
            .filter_map(|(at, line)| Some((at + 1, line.split_once("//~ ")?.1)))
            .collect();
        let (errors, output) = compiler.compile(&file);
        let lines = |errors: &[usize]| format!("{}: lines {errors:?}\n{output}", file.display());
        let found: Vec<usize> = errors.iter().map(|(line, _)| *line).collect();
        let wanted: Vec<usize> = expected.iter().map(|(line, _)| *line).collect();
        assert_eq!(found, wanted, "{}", lines(&found));
        for ((_, message), (_, part)) in errors.iter().zip(&expected) {
            assert!(message.contains(part), "{part}, not {message}");
        }
        cases += usize::from(!expected.is_empty());
    }
    assert_eq!(cases, 7, "files in which something is expected");
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail")
}

struct Compiler {
    rustc: OsString,
    /// Where this test and all it depends on were built.
    dependencies: PathBuf,
    client: PathBuf,
}

impl Compiler {
    /// The directory may hold the client more than once, built with other features or in other versions: the newest
    /// with which the right use of it compiles is the one.
    fn find() -> Self {
        let this = std::env::current_exe().expect("this program has a path");
        let dependencies = this.parent().expect("it is in a directory").to_owned();
        let mut clients: Vec<_> = fs::read_dir(&dependencies)
            .expect("the directory can be read")
            .filter_map(Result::ok)
            .filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with("libamqp_client-") && name.ends_with(".rlib")
            })
            .map(|entry| {
                let modified = entry.metadata().and_then(|data| data.modified());
                (modified.expect("files have a time"), entry.path())
            })
            .collect();
        clients.sort();
        let mut outputs = String::new();
        while let Some((_, client)) = clients.pop() {
            let compiler = Compiler {
                rustc: std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()),
                dependencies: dependencies.clone(),
                client,
            };
            match compiler.compile(&directory().join("right.rs")) {
                (errors, output) if errors.is_empty() && output.is_empty() => return compiler,
                (_, output) => outputs += &output,
            }
        }
        panic!("the right use of the client does not compile either:\n{outputs}");
    }

    /// The errors, each with its line, and all that the compiler said.
    fn compile(&self, file: &Path) -> (Vec<(usize, String)>, String) {
        let scratch = tempfile::tempdir().expect("a directory can be made");
        let output = Command::new(&self.rustc)
            .args([
                "--edition=2024",
                "--crate-type=lib",
                "--emit=metadata",
                "--error-format=short",
            ])
            .arg("--out-dir")
            .arg(scratch.path())
            .arg("-L")
            .arg(format!("dependency={}", self.dependencies.display()))
            .arg("--extern")
            .arg(format!("amqp_client={}", self.client.display()))
            .arg(file)
            .output()
            .expect("the compiler runs");
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        // path:line:column: error[code]: message
        let errors = output.lines().filter_map(|line| {
            let line = line.strip_prefix(file.to_str()?)?;
            let mut parts = line.splitn(4, ':');
            let (_, line, _) = (parts.next()?, parts.next()?, parts.next()?);
            let message = parts.next()?.trim_start();
            (message.starts_with("error")).then_some((line.parse().ok()?, message.to_owned()))
        });
        (errors.collect(), output)
    }
}
