//! The start of a runtime: its identity, and the profiler that the environment names.
//!
//! Such a profiler gets `Initialize` before any managed code runs, and the whole API. If it cannot be loaded, the program runs anyway, and
//! only the log reports it.

use super::{EmptyEnvironment, Entry, GcMode, ProcessEnvironment, Profiler, Runtime, Status};
use crate::differences::{Differences, Release, RuntimeVersion};
use crate::library::Library;
use crate::mutation;
use crate::schedule;
use corprof::{Guid, HResult, sys};
use std::sync::Arc;

/// The value of the opt-in variable that allows a profiler for 2.x (documented, "Profiler Compatibility Settings").
const ENABLE_OLD: &str = "EnableV2Profiler";
/// The value that forbids every profiler.
const PREVENT_LOAD: &str = "PreventLoad";
/// The first .NET Framework runtime that supports attach, detach, and a path in the environment.
const FIRST_ATTACHABLE: u16 = 4;
/// The first release that also reads settings from variables with the newer prefix (source: clrconfig.cpp; live: cmp_01).
const FIRST_DOTNET: u16 = 6;
/// CO_E_CLASSSTRING.
const NO_CLASS: HResult = HResult(0x8004_01F3_u32 as i32);

/// The identity of a runtime and its surroundings.
pub struct RuntimeConfig {
    /// Its version number.
    pub release: Release,
    /// Its number among the process's runtimes, from 0 on.
    pub number: usize,
    /// Its GC mode.
    pub gc_mode: GcMode,
    /// Its surroundings.
    pub process: Arc<dyn ProcessEnvironment>,
}

impl RuntimeConfig {
    /// The only runtime of a process with empty surroundings.
    pub fn of(runtime_version: RuntimeVersion) -> RuntimeConfig {
        let release = runtime_version.differences().release;
        RuntimeConfig { release, number: 0, gc_mode: GcMode::default(), process: Arc::new(EmptyEnvironment) }
    }
}

/// Why a profiler was not loaded at startup, as a log entry.
struct Refusal(Entry);

impl From<HResult> for Refusal {
    fn from(code: HResult) -> Refusal {
        Refusal(Entry::Failed(code.0 as u32))
    }
}

impl Runtime {
    /// Its version number.
    pub fn version(&self) -> Release {
        self.config.release
    }

    /// Whether profilers can be attached: not before version 4 of the .NET Framework.
    pub fn is_attachable(&self) -> bool {
        self.runtime_version != RuntimeVersion::Desktop4 || self.config.release.0 >= FIRST_ATTACHABLE
    }

    /// Its newest Info; before version 4 it was the second.
    pub(super) fn info_version(&self) -> u8 {
        if mutation::is("RJT-01/3") {
            return 4;
        }
        if self.is_attachable() { self.differences().info_version } else { 2 }
    }

    pub(super) fn callback_version(&self) -> u8 {
        if mutation::is("CMP-02") {
            return 1;
        }
        if self.is_attachable() { self.differences().callback_version } else { 2 }
    }

    /// The answers of GetRuntimeInformation: a number in the process, the kind, the release.
    pub(super) fn identity(&self) -> (u16, sys::COR_PRF_RUNTIME_TYPE, Release) {
        let is_desktop = self.runtime_version == RuntimeVersion::Desktop4;
        let kind = if is_desktop { sys::COR_PRF_DESKTOP_CLR } else { sys::COR_PRF_CORE_CLR };
        let reported = self.differences().reported_release.unwrap_or(self.config.release);
        let release = if mutation::is("SBS-02/2") { Release(0, 0, 0) } else { reported };
        (self.config.number as u16, kind, release)
    }

    /// Loads the profiler that the environment names, if it names one.
    pub(super) fn load_what_the_environment_names(self: &Arc<Self>) {
        let Differences { startup_prefix, older_startup_prefix, .. } = self.differences();
        let older = older_startup_prefix.filter(|_| !mutation::is("ATT-17/6"));
        let prefixes = || std::iter::once(*startup_prefix).chain(older);
        let variable =
            |name: &str| prefixes().find_map(|prefix| self.config.process.variable(&format!("{prefix}_{name}")));
        let is_enabled = variable("ENABLE_PROFILING").as_deref() == Some("1") || mutation::is("ATT-17");
        let is_prevented = self.setting().as_deref() == Some(PREVENT_LOAD) && !mutation::is("CMP-01/3");
        if is_enabled && is_prevented && self.differences().prevented_load_crashes {
            self.config.process.crash();
        }
        if !is_enabled || is_prevented {
            return;
        }
        let loaded = variable("PROFILER")
            .and_then(|text| class_in_words(&text))
            .ok_or(Refusal::from(NO_CLASS))
            .and_then(|class| self.load_class(&class, variable("PROFILER_PATH").as_deref()));
        if loaded.is_err() && mutation::is("ATT-17/4") {
            return;
        }
        self.write_log(match loaded {
            Ok(()) => Entry::Loaded,
            Err(Refusal(entry)) => entry,
        });
    }

    /// Loads a profiler before the program runs. Returns Initialize's answer. If it fails, the process runs without the profiler.
    pub fn load_at_start(self: &Arc<Self>, library: &Arc<Library>, class: &Guid) -> HResult {
        self.begin_detach_thread();
        let made = self.make(library.clone(), class, false);
        made.and_then(|profiler| self.initialize_for_startup(&profiler)).err().unwrap_or(HResult::S_OK)
    }

    fn load_class(self: &Arc<Self>, class: &Guid, path: Option<&str>) -> Result<(), Refusal> {
        // Version 4 introduced the path (seed 003, "Registry-free activation").
        self.begin_detach_thread();
        let library = self.locate(class, path.filter(|_| self.is_attachable()))?;
        let profiler = self.make(library, class, mutation::is("ATT-17/3"))?;
        let is_old = profiler.callback_version < 3;
        if is_old {
            self.admit_old(&profiler)?;
        }
        self.initialize_for_startup(&profiler).inspect_err(|_| {
            if is_old && !mutation::is("SBS-04/2") {
                self.config.process.give_the_claim_back();
            }
        })?;
        Ok(())
    }

    /// Admits a profiler without ICorProfilerCallback3: the user must allow it, and no other runtime of the process may have one.
    fn admit_old(&self, profiler: &Profiler) -> Result<(), Refusal> {
        let differences = self.differences();
        let needs_a_word = self.is_attachable()
            && (differences.old_profilers_need_a_word || mutation::is("CMP-01/5"))
            && !mutation::is("CMP-01");
        let refusal = if needs_a_word && self.setting().as_deref() != Some(ENABLE_OLD) {
            Entry::TooOld(differences.opt_in_variable)
        } else if !self.config.process.claim_for_an_old_profiler() {
            Entry::OtherRuntimeHasOne
        } else {
            return Ok(());
        };
        self.discard(profiler);
        Err(Refusal(refusal))
    }

    /// Calls Initialize and enables callbacks. On a failure everything is released.
    fn initialize_for_startup(self: &Arc<Self>, profiler: &Arc<Profiler>) -> Result<(), HResult> {
        let unknown = self.register(profiler);
        let answer = self.call_uncounted(profiler, "Initialize", |object| {
            // SAFETY: Info outlives the profiler.
            unsafe { object.initialize(unknown) }
        });
        let code = answer.flatten().unwrap_or(HResult::E_FAIL);
        if !mutation::is("SBS-02") {
            code.ok().inspect_err(|_| self.take_back(profiler))?;
        }
        self.has_started_with(profiler);
        profiler.become_(Status::Active);
        schedule::note("A profiler is loaded with the process", 0);
        Ok(())
    }

    /// The library of a class: by its path, or, only without a path, by the registry.
    pub(super) fn locate(&self, class: &Guid, path: Option<&str>) -> Result<Arc<Library>, HResult> {
        let process = &self.config.process;
        if let Some(path) = path.filter(|path| !path.is_empty() && !mutation::is("ATT-22")) {
            return process.open(path);
        }
        let has_registry = self.differences().registry_knows_classes;
        if !has_registry && !mutation::is("ATT-22/2") && !mutation::is("ATT-17/5") {
            // source: FakeCoCallDllGetClassObject, utilcode/util.cpp.
            return Err(HResult::E_FAIL);
        }
        let path = process.registered(class).ok_or(HResult::REGDB_E_CLASSNOTREG)?;
        process.open(&path)
    }

    /// A user's setting, in hexadecimal digits.
    pub(super) fn number_set(&self, name: &str) -> Option<u64> {
        let prefixes = self.differences().settings_prefixes.iter();
        let digits = prefixes.filter_map(|prefix| self.config.process.variable(&format!("{prefix}_{name}"))).next();
        digits.and_then(|digits| u64::from_str_radix(&digits, 16).ok())
    }

    /// The opt-in variable, also with the newer prefix where that is known. Releases before version 4 do not know it.
    fn setting(&self) -> Option<String> {
        let name = self.differences().opt_in_variable;
        let newer = name.replacen("COMPlus_", "DOTNET_", usize::from(self.config.release.0 >= FIRST_DOTNET));
        let variable = || [newer.as_str(), name].into_iter().find_map(|name| self.config.process.variable(name));
        self.is_attachable().then(variable).flatten()
    }
}

/// A class in the variable's format: hexadecimal digits in braces.
fn class_in_words(text: &str) -> Option<Guid> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let digits: String = inner.chars().filter(|letter| *letter != '-').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten().map(Guid::from_u128)
}
