//! A runtime of the model in a real process: real threads, an environment, profilers' libraries from real files.
//!
//! # Purpose
//! A test that attaches a profiler to a process cannot tell such a process from one of .NET: that is how one body of a test judges both
//! (docs/design/0010-one-suite.md). What the process does with its runtime is the program's affair (`tests/model-host`).
//!
//! # Design constraints
//! What a profiler does wrong is not judged here: the process lives or dies of it, as a real one does.

use crate::court::Court;
use crate::differences::Personality;
use crate::lab::image::Image;
use crate::library::Library;
use crate::runtime::{Birth, GcMode, Runtime, Surroundings};
use crate::schedule::threads;
use corprof::{Guid, HResult};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first release that reads its settings from variables with the newer prefix as well.
const FIRST_DOTNET: u16 = 6;

/// The variables that a process was started with.
pub type Environment = BTreeMap<String, String>;

/// Starts the process's runtime, and with it the profiler that the environment names. To be called once.
pub fn start(personality: Personality, seed: u64, environment: Environment) -> Arc<Runtime> {
    threads::conduct(seed);
    let court = Arc::new(Court::default());
    let gc_mode = gc_mode(personality, &environment);
    let surroundings = Arc::new(OwnProcess { environment, court: court.clone() });
    let birth = Birth { gc_mode, surroundings, ..Birth::of(personality) };
    Runtime::start_in(personality, court, birth)
}

/// Collections run beside the program unless a setting says otherwise (source: clrconfignames.h, gcConcurrent).
fn gc_mode(personality: Personality, environment: &Environment) -> GcMode {
    let is_dotnet = personality.differences().release.0 >= FIRST_DOTNET;
    let prefixes: &[&str] = if is_dotnet { &["DOTNET", "COMPlus"] } else { &["COMPlus"] };
    let setting = prefixes.iter().find_map(|prefix| environment.get(&format!("{prefix}_gcConcurrent")));
    if setting.is_some_and(|setting| setting == "0") { GcMode::Blocking } else { GcMode::Concurrent }
}

/// This very process.
struct OwnProcess {
    environment: Environment,
    /// For the libraries that are opened in it.
    court: Arc<Court>,
}

impl Surroundings for OwnProcess {
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }

    fn open(&self, path: &str) -> Result<Arc<Library>, HResult> {
        let image = Image::open(path).map_err(|_| HResult::ERROR_MOD_NOT_FOUND)?;
        Ok(Library::new(image, self.court.clone()))
    }

    fn registered(&self, _class: &Guid) -> Option<String> {
        None
    }

    fn is_halted(&self) -> bool {
        false
    }

    fn claim_for_an_old_profiler(&self) -> bool {
        true
    }

    fn give_the_claim_back(&self) {}
}
