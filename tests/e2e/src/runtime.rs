//! The matrix of runtimes and runtime models, and running a test on each.

use crate::results;
use remora_holds::Place;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A .NET installation for a target, or a runtime model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    root: PathBuf,
    version: [u32; 3],
    /// The model's name in the model host, if this is a model.
    model: Option<&'static str>,
}

/// The runtime models, by name and version.
const MODELS: [(&str, [u32; 3]); 5] = [
    ("core3.1", [3, 1, 23]),
    ("core6", [6, 0, 0]),
    ("core8", [8, 0, 4]),
    ("core9", [9, 0, 7]),
    ("core10", [10, 0, 12]),
];

impl Runtime {
    /// Every runtime of the matrix, oldest first.
    pub fn all() -> Vec<Runtime> {
        let roots = crate::expected("REMORA_TEST_DOTNET_ROOTS");
        let mut runtimes: Vec<Runtime> = std::env::split_paths(&roots).map(|root| Runtime::at(&root)).collect();
        assert!(!runtimes.is_empty(), "REMORA_TEST_DOTNET_ROOTS is empty");
        runtimes.sort_by_key(|runtime| runtime.version);
        runtimes
    }

    /// The runtimes with this major version or a newer one.
    pub fn from_major(major: u32) -> Vec<Runtime> {
        let runtimes: Vec<Runtime> = Runtime::all().into_iter().filter(|runtime| runtime.major() >= major).collect();
        assert!(!runtimes.is_empty(), "no runtime of the matrix is {major} or newer");
        runtimes
    }

    /// The oldest runtime with exactly this major version.
    pub fn major_is(major: u32) -> Runtime {
        let found = Runtime::all().into_iter().find(|runtime| runtime.major() == major);
        found.unwrap_or_else(|| panic!("no runtime of the matrix is .NET {major}"))
    }

    /// The runtime models, oldest first. All other lists have live runtimes only.
    pub fn models() -> Vec<Runtime> {
        let model = |(name, version)| Runtime { root: PathBuf::new(), version, model: Some(name) };
        MODELS.into_iter().map(model).collect()
    }

    /// Whether it is a model.
    pub fn is_model(&self) -> bool {
        self.model.is_some()
    }

    /// Its name in results: `clr 8.0.4`, `sim 8`.
    pub fn world(&self) -> String {
        match (self.is_model(), self.major()) {
            (false, _) => format!("clr {}", self.version_text()),
            (true, 3) => "sim 3.1".to_owned(),
            (true, major) => format!("sim {major}"),
        }
    }

    /// A command that runs one of `tests/targets` on it.
    pub(crate) fn command(&self, target: &str) -> Command {
        let Some(model) = self.model else {
            let mut command = Command::new(self.launcher());
            command.arg(crate::Target::assembly(target));
            return command;
        };
        let mut command = Command::new(crate::expected("REMORA_MODEL_HOST"));
        command.args([model, target]);
        command
    }

    /// The name of the mapped file with the runtime's code.
    pub fn own_file(&self) -> &'static str {
        if self.is_model() { "remora-model-host" } else { "libcoreclr.so" }
    }

    /// The newest runtime.
    pub fn newest() -> Runtime {
        Runtime::all().pop().unwrap_or_else(|| panic!("the matrix is empty"))
    }

    /// A runtime with ASP.NET Core.
    pub fn with_aspnet() -> Runtime {
        let found =
            Runtime::all().into_iter().find(|runtime| runtime.root.join("shared/Microsoft.AspNetCore.App").is_dir());
        found.unwrap_or_else(|| panic!("no runtime of the matrix has ASP.NET Core"))
    }

    /// The folder of the installation.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The launcher.
    pub fn launcher(&self) -> PathBuf {
        self.root.join("dotnet")
    }

    /// The folder with `libcoreclr.so` in it.
    pub fn core_folder(&self) -> PathBuf {
        self.root.join("shared/Microsoft.NETCore.App").join(self.version_text())
    }

    /// The first number of the version.
    pub fn major(&self) -> u32 {
        self.version[0]
    }

    /// The version, as in `8.0.4`.
    pub fn version_text(&self) -> String {
        let [major, minor, patch] = self.version;
        format!("{major}.{minor}.{patch}")
    }

    /// The usual name: `.NET Core 3.1.23`, `.NET 8.0.4`, `the model of .NET 8`.
    pub fn name(&self) -> String {
        let kind = if self.major() < 5 { ".NET Core" } else { ".NET" };
        match self.is_model() {
            true => format!("the model of {kind} {}", self.world().trim_start_matches("sim ")),
            false => format!("{kind} {}", self.version_text()),
        }
    }

    fn at(root: &Path) -> Runtime {
        let shared = root.join("shared/Microsoft.NETCore.App");
        let entries =
            std::fs::read_dir(&shared).unwrap_or_else(|error| panic!("cannot list {}: {error}", shared.display()));
        let versions = entries.flatten().filter_map(|entry| version(&entry.file_name().to_string_lossy()));
        let version = versions.max().unwrap_or_else(|| panic!("no version in {}", shared.display()));
        Runtime { root: root.to_path_buf(), version, model: None }
    }
}

/// Runs `test` on every runtime of the matrix. After a failure it continues, and the panic names each failed runtime.
pub fn on_every_runtime(test: impl Fn(&Runtime)) {
    on_runtimes(&Runtime::all(), test);
}

/// Like [`on_every_runtime`], on these.
pub fn on_runtimes(runtimes: &[Runtime], test: impl Fn(&Runtime)) {
    on_each(runtimes, test, |runtime, passed| results::add(&runtime.world(), passed));
}

/// Like [`on_runtimes`], on all of them at once: for tests that mostly wait.
pub fn on_runtimes_at_once(runtimes: &[Runtime], test: impl Fn(&Runtime) + Sync) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let start = |runtime| {
            let test = &test;
            // The results and the panics of a thread carry the test's name.
            let thread = std::thread::Builder::new().name(name.clone());
            thread.spawn_scoped(scope, move || on_runtimes(std::slice::from_ref(runtime), test)).expect("a thread")
        };
        let threads: Vec<_> = runtimes.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let failed: Vec<&str> =
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).map(|cause| message_of(cause.as_ref())).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The same, and passes each result to `note`.
fn on_each(runtimes: &[Runtime], test: impl Fn(&Runtime), note: impl Fn(&Runtime, bool)) {
    let mut failed = Vec::new();
    for runtime in runtimes {
        let place = Place::current().in_world(&runtime.world());
        let outcome = catch_unwind(AssertUnwindSafe(|| place.inside(|| test(runtime))));
        note(runtime, outcome.is_ok());
        if let Err(cause) = outcome {
            failed.push(format!("on {}: {}", runtime.name(), message_of(cause.as_ref())));
        }
    }
    assert!(failed.is_empty(), "failed on {} of {} runtimes\n{}", failed.len(), runtimes.len(), failed.join("\n"));
}

/// The message of a panic.
pub fn message_of(cause: &(dyn std::any::Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

fn version(name: &str) -> Option<[u32; 3]> {
    let mut parts = name.split('-').next()?.split('.').map(str::parse::<u32>);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_runtimes_at_once_each_that_failed_is_named() {
        let made_up = |version| Runtime { root: PathBuf::new(), version, model: None };
        let runtimes = [made_up([8, 0, 4]), made_up([9, 0, 7]), made_up([10, 0, 0])];
        // Nobody goes on alone: each waits for the others.
        let all = std::sync::Barrier::new(runtimes.len());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            on_runtimes_at_once(&runtimes, |runtime| {
                all.wait();
                assert!(runtime.major() == 9, "not nine");
            });
        }));
        let said = message_of(outcome.unwrap_err().as_ref()).to_owned();
        assert!(said.contains("on .NET 8.0.4: not nine") && said.contains("on .NET 10.0.0: not nine"), "{said}");
        assert!(!said.contains("9.0.7"), "{said}");
    }

    #[test]
    fn each_runtime_that_failed_is_named_and_the_others_are_tried() {
        let made_up = |version| Runtime { root: PathBuf::new(), version, model: None };
        let runtimes = [made_up([3, 1, 23]), made_up([8, 0, 4]), made_up([9, 0, 7])];
        let tried = std::cell::RefCell::new(Vec::new());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            on_each(
                &runtimes,
                |runtime| assert!(runtime.major() == 8, "not eight"),
                |runtime, passed| tried.borrow_mut().push((runtime.major(), passed)),
            );
        }));
        let cause = outcome.unwrap_err();
        let message = message_of(cause.as_ref());
        assert!(message.contains("2 of 3"), "{message}");
        assert!(message.contains("on .NET Core 3.1.23: not eight"), "{message}");
        assert_eq!(*tried.borrow(), [(3, false), (8, true), (9, false)]);
    }

    #[test]
    fn a_model_is_distinguished_from_what_it_is_a_model_of() {
        let models = Runtime::models();
        assert_eq!(models[0].name(), "the model of .NET Core 3.1");
        assert_eq!(models[2].name(), "the model of .NET 8");
        assert_eq!([models[0].world(), models[2].world()], ["sim 3.1", "sim 8"]);
        let live = Runtime { root: PathBuf::new(), version: [8, 0, 4], model: None };
        assert_eq!((live.world().as_str(), live.is_model()), ("clr 8.0.4", false));
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("10.0.12"), Some([10, 0, 12]));
        assert_eq!(version("9.0.0-rc.1"), Some([9, 0, 0]));
        assert_eq!(version("9.0"), None);
    }
}
