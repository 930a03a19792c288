//! A session: from the request of a recorder until all methods are restored.

use super::connection::{Connection, Received};
use super::machine::{Machine, core_library_has_ids, returns_task};
use super::metadata::{Emitter, Metadata, Method};
use super::modules::{self, Loaded, with_module};
use super::pattern::{Rules, matches};
use super::rewriting::{Untraceable, Wrapping, check, original};
use super::search::{Match, search};
use super::threads::start_thread;
use super::{names, origins, probes, replacements, requests, runtime, shared};
use crate::fixed_modules::{FixedModule, assembly_of, is_fixed};
use crate::parameters::Types;
use corprof::{
    Alive, AttachMask, Attached, HResult, HighAttachMask, Info, MethodToken, ModuleFlags, ModuleId, irreversible,
};
use remora_il::{Body, NamedType};
use remora_wire::method_trace::memory::{
    ENTERED, MOST_METHODS, PROBE_COST, RECORDS_LEFT, SESSION, STEPS, STRIPES, THRESHOLD, row,
};
use remora_wire::method_trace::{
    Change, ChangeOutcome, Changed, Ended, FromTracer, RETURNS_TASK, ToTracer, TraceConfig, TraceRequest,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time for each step of the conversation before the probes are in.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks at names, modules and counts.
const INTERVAL: Duration = Duration::from_millis(20);
/// Time over which calls per second are measured.
const RATE_INTERVAL: Duration = Duration::from_millis(200);

/// Methods that are reported as not traced because of their module.
const MOST_NOT_TRACED: usize = 1000;

static IS_RUNNING: AtomicBool = AtomicBool::new(false);
static IS_ATTACHED: AtomicBool = AtomicBool::new(false);
/// Numbers of sessions.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// ProfilerAttachComplete: the runtime's lists are whole from now on.
pub(crate) fn attach_is_complete() {
    IS_ATTACHED.store(true, Ordering::SeqCst);
}

/// Starts a session on a thread of its own.
///
/// # Errors
/// The system's error number; `EBUSY` if a session runs.
pub(crate) fn start(config: TraceConfig) -> Result<(), i32> {
    if IS_RUNNING.swap(true, Ordering::SeqCst) {
        return Err(libc::EBUSY);
    }
    let run = move || {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if let Some(info) = runtime::info() {
                run(info, &config);
            }
        }));
        shared::set(SESSION, 0);
        IS_RUNNING.store(false, Ordering::SeqCst);
    };
    match start_thread(run) {
        Ok(thread) => {
            thread.let_go();
            Ok(())
        }
        Err(error) => {
            IS_RUNNING.store(false, Ordering::SeqCst);
            Err(error)
        }
    }
}

fn run(info: &'static Info<Attached, Alive>, config: &TraceConfig) {
    let Ok(mut connection) = Connection::to(&config.socket_path) else { return };
    connection.send(&FromTracer::Hello { version: remora_wire::VERSION, nonce: config.nonce });
    let Some(ToTracer::Trace(request)) = wait(&mut connection) else { return };
    let Some(descriptor) = connection.take_descriptor() else { return };
    if let Err(error) = shared::share(&descriptor) {
        return connection.send(&FromTracer::Refused { call: "mmap".into(), code: error as u32 });
    }
    drop(descriptor);
    // A number whose short form is not that of "no session".
    let number = NUMBER.fetch_add(1, Ordering::SeqCst) + 1;
    let number = if probes::short(number) == 0 { NUMBER.fetch_add(1, Ordering::SeqCst) + 1 } else { number };
    let mut session = Session {
        info,
        rules: Rules::of(&request.patterns),
        request,
        connection,
        number,
        methods: Vec::new(),
        found: 0,
        why: Ended::Asked,
        is_changed: false,
        has_task_ids: false,
        outbox: Vec::new(),
        not_traced: BTreeSet::new(),
        fixed: Vec::new(),
    };
    session.trace();
    session.end();
}

/// The number of a method: its own, or that of its steps.
fn number(module: ModuleId, method: &Match) -> Option<u32> {
    let number = |token| replacements::index(module, MethodToken(token));
    number(method.token).or_else(|| method.steps.and_then(number))
}

/// The next message, unless the recorder is gone or says nothing for long.
fn wait(connection: &mut Connection) -> Option<ToTracer> {
    match connection.receive(PATIENCE) {
        Received::Message(message) => Some(message),
        Received::Nothing | Received::HungUp => None,
    }
}

/// A method with a number.
struct Traced {
    module: ModuleId,
    token: MethodToken,
    /// Its full name, or that of the method whose steps it runs.
    name: String,
    is_steps: bool,
    /// Whether the user took it out, or the runtime refused it. Its number stays its own.
    is_out: bool,
}

struct Session {
    info: &'static Info<Attached, Alive>,
    request: TraceRequest,
    rules: Rules,
    connection: Connection,
    number: u64,
    methods: Vec<Traced>,
    /// Methods that match.
    found: u32,
    why: Ended,
    /// Whether the runtime was asked to replace a method.
    is_changed: bool,
    /// Whether the core library has what the steps of asynchronous methods call.
    has_task_ids: bool,
    /// Messages about a module. They are sent when its unload no longer waits.
    outbox: Vec<FromTracer>,
    /// Names of methods that were reported as not traced.
    not_traced: BTreeSet<String>,
    /// Modules that cannot unload, the core library first.
    fixed: Vec<FixedModule>,
}

impl Session {
    fn trace(&mut self) {
        let until = Instant::now() + PATIENCE;
        while !IS_ATTACHED.load(Ordering::SeqCst) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Err(code) = self.info.set_event_mask2(AttachMask::MODULE_LOADS, HighAttachMask::NONE) {
            return self.refused("SetEventMask", code);
        }
        let modules = match modules::loaded(self.info) {
            Ok(modules) => modules,
            Err(code) => return self.refused("EnumModules", code),
        };
        modules.iter().for_each(|loaded| self.keep_if_fixed(*loaded));
        for loaded in modules {
            self.look_at(loaded, None);
        }
        self.matched();
        if self.methods.is_empty() || wait(&mut self.connection) != Some(ToTracer::Go) {
            return;
        }
        self.put_probes_in();
    }

    /// Methods that are traced.
    fn traced(&self) -> u32 {
        self.methods.iter().filter(|method| !method.is_steps && !method.is_out).count() as u32
    }

    fn matched(&mut self) {
        let (methods, found) = (self.traced(), self.found);
        self.connection.send(&FromTracer::Matched { methods, found });
    }

    fn put_probes_in(&mut self) {
        if let Err(code) = runtime::listen(self.info) {
            return self.refused("SetEventMask", code);
        }
        shared::set(SESSION, probes::short(self.number));
        shared::set(PROBE_COST, probes::calibrate(self.number));
        shared::set(THRESHOLD, self.request.slower_than);
        shared::set(RECORDS_LEFT, self.request.records);
        if let Err(code) = self.request_rejit((0..self.methods.len()).collect()) {
            return self.refused("RequestReJITWithInliners", code);
        }
        self.connection.send(&FromTracer::Started { time: probes::now() });
        self.watch();
    }

    /// Until the recorder ends the session, or goes.
    fn watch(&mut self) {
        let mut rate = (Instant::now(), self.calls());
        loop {
            match self.connection.receive(INTERVAL) {
                Received::Message(ToTracer::Stop) | Received::HungUp => return,
                Received::Message(ToTracer::Change(change)) => self.change(&change),
                Received::Message(ToTracer::SlowerThan(nanoseconds)) => shared::set(THRESHOLD, nanoseconds),
                Received::Message(_) | Received::Nothing => {}
            }
            names::answer(|name| self.connection.send(&name));
            self.take_from_inbox();
            let elapsed = rate.0.elapsed();
            if elapsed >= RATE_INTERVAL {
                let calls = self.calls();
                let allowed = u128::from(self.request.most_calls) * elapsed.as_millis() / 1000;
                if u128::from(calls.saturating_sub(rate.1)) > allowed {
                    self.why = Ended::TooManyCalls;
                    return;
                }
                rate = (Instant::now(), calls);
            }
        }
    }

    /// Calls of all methods so far; of an asynchronous one, its steps.
    fn calls(&self) -> u64 {
        let rows = (0..self.methods.len()).flat_map(|method| (0..STRIPES).map(move |stripe| row(method, stripe)));
        rows.map(|row| shared::get(row + ENTERED).max(shared::get(row + STEPS))).sum()
    }

    fn take_from_inbox(&mut self) {
        modules::empty_inbox(|left| {
            for (index, code) in left.failed {
                self.connection.send(&FromTracer::Failed { index, code: code.0 as u32 });
            }
            left.came.iter().for_each(|loaded| self.keep_if_fixed(*loaded));
            for loaded in left.came {
                let before = self.methods.len();
                self.look_at(loaded, None);
                if self.methods.len() > before {
                    // What fails here was not traced before, either.
                    let _ = self.request_rejit((before..self.methods.len()).collect());
                    self.matched();
                }
            }
        });
    }

    /// Changes what is traced, and reports the effect.
    fn change(&mut self, change: &Change) {
        let effect = match change {
            Change::Add { pattern, most } => self.add_matching(pattern, *most),
            Change::Remove { pattern } => self.take_out(pattern),
            Change::SlowerThan(nanoseconds) => {
                shared::set(THRESHOLD, *nanoseconds);
                Changed::default()
            }
        };
        let traced = self.traced();
        self.connection.send(&FromTracer::Changed(Changed { traced, ..effect }));
    }

    /// Traces the methods that match, too: those that were taken out, and new ones.
    fn add_matching(&mut self, pattern: &str, most: u32) -> Changed {
        let modules = match modules::loaded(self.info) {
            Ok(modules) => modules,
            Err(code) => return Changed { code: code.0 as u32, ..Changed::default() },
        };
        let (found, already) = modules.iter().fold((0, 0), |(found, already), loaded| {
            let here = self.count(*loaded, pattern);
            (found + here.0, already + here.1)
        });
        let refused = |outcome| Changed { outcome, found, already, ..Changed::default() };
        if found - already > most {
            return refused(ChangeOutcome::TooManyMethods);
        }
        if !self.rules.push(pattern, true) {
            return refused(ChangeOutcome::TooManyPatterns);
        }
        let (first, before) = (self.methods.len(), self.traced());
        let mut wanted = self.matching(pattern, true);
        modules.into_iter().for_each(|loaded| self.look_at(loaded, Some(pattern)));
        wanted.extend(first..self.methods.len());
        for index in &wanted {
            self.switch(*index, false);
        }
        let code = match wanted.is_empty() {
            true => 0,
            false => self.request_rejit(wanted.clone()).err().map_or(0, |code| code.0 as u32),
        };
        for index in wanted.into_iter().filter(|index| *index < first) {
            let is_traced = !self.methods[index].is_out;
            self.connection.send(&FromTracer::Switched { index: index as u32, is_traced });
        }
        Changed { found, already, changed: self.traced() - before, code, ..Changed::default() }
    }

    /// Restores the methods that match.
    fn take_out(&mut self, pattern: &str) -> Changed {
        if !self.rules.push(pattern, false) {
            return Changed { outcome: ChangeOutcome::TooManyPatterns, ..Changed::default() };
        }
        let (wanted, before) = (self.matching(pattern, false), self.traced());
        let found = wanted.iter().filter(|index| !self.methods[**index].is_steps).count() as u32;
        wanted.iter().for_each(|index| self.switch(*index, true));
        let answers = self.revert(&wanted);
        let mut code = 0;
        for (index, answer) in wanted.into_iter().zip(answers) {
            if answer.is_success() {
                self.connection.send(&FromTracer::Switched { index: index as u32, is_traced: false });
            } else {
                self.switch(index, false);
                code = answer.0 as u32;
            }
        }
        Changed { found, changed: before - self.traced(), code, ..Changed::default() }
    }

    fn switch(&mut self, index: usize, is_out: bool) {
        let (module, token) = self.place(index);
        self.methods[index].is_out = is_out;
        replacements::switch(module, token, is_out);
    }

    /// Known methods that match, and are taken out or not.
    fn matching(&self, pattern: &str, is_out: bool) -> Vec<usize> {
        let methods = self.methods.iter().enumerate();
        let matching = methods.filter(|(_, method)| method.is_out == is_out && matches(pattern, &method.name));
        matching.map(|(index, _)| index).collect()
    }

    /// How many methods of a module match, and how many of these are traced.
    fn count(&self, loaded: Loaded, pattern: &str) -> (u32, u32) {
        let counted = with_module(loaded, || {
            let module = loaded.module;
            let metadata = Metadata::of(self.info, module).ok().filter(|_| !self.can_unload(module))?;
            let found = search(&metadata, &|name| matches(pattern, name));
            let known = found.iter().filter_map(|method| self.methods.get(number(module, method)? as usize));
            let already = known.filter(|method| !method.is_out).count();
            Some((found.len() as u32, already as u32))
        });
        counted.flatten().unwrap_or((0, 0))
    }

    /// Finds and wraps the new methods of a module: those that match a pattern, or the rules.
    fn look_at(&mut self, loaded: Loaded, pattern: Option<&str>) {
        let (info, module) = (self.info, loaded.module);
        let fixed = std::mem::take(&mut self.fixed);
        with_module(loaded, || {
            // A module without metadata has no methods.
            let Ok(metadata) = Metadata::of(info, module) else { return };
            // The core library is the first module.
            self.has_task_ids |= core_library_has_ids(&metadata);
            let found = match pattern {
                Some(pattern) => search(&metadata, &|name| matches(pattern, name)),
                None => search(&metadata, &|name| self.rules.wants(name)),
            };
            if found.is_empty() {
                return;
            }
            if self.can_unload(module) {
                return found.iter().for_each(|method| self.not_traced(&method.name, "its assembly can be unloaded"));
            }
            if self.is_changed && pattern.is_none() && found.len() > self.request.most_late as usize {
                let why =
                    format!("{} methods of its assembly match, which was loaded later; --yes traces more", found.len());
                return self.not_traced(&found[0].name, &why);
            }
            let emitter = Emitter::of(info, module);
            let types = Types::of(info, &metadata, &fixed);
            for method in found {
                if number(module, &method).is_some() {
                    continue;
                }
                self.found += 1;
                if self.methods.len() < (self.request.most_methods as usize).min(MOST_METHODS - 1) {
                    self.add(module, &types, &emitter, method);
                }
            }
        });
        self.fixed = fixed;
        for message in std::mem::take(&mut self.outbox) {
            self.connection.send(&message);
        }
    }

    /// Whether a module is one of those that can be unloaded. Their methods are left out: a request for one might come too late.
    fn can_unload(&self, module: ModuleId) -> bool {
        self.info.get_module_info2(module).is_ok_and(|info| info.flags.contains(ModuleFlags::COLLECTIBLE))
    }

    /// Keeps a module for the search of enums.
    fn keep_if_fixed(&mut self, loaded: Loaded) {
        let (info, module) = (self.info, loaded.module);
        if !self.request.arguments || self.fixed.iter().any(|known| known.module == module) {
            return;
        }
        let assembly = with_module(loaded, || assembly_of(info, module).filter(|_| is_fixed(info, module))).flatten();
        self.fixed.extend(assembly.map(|assembly| FixedModule { module, assembly }));
    }

    /// Reports a method that is not traced, once.
    fn not_traced(&mut self, name: &str, why: &str) {
        if self.not_traced.len() < MOST_NOT_TRACED && self.not_traced.insert(name.to_owned()) {
            self.found += 1;
            self.outbox.push(FromTracer::Method {
                index: None,
                name: name.to_owned(),
                remark: why.to_owned(),
                steps_of: None,
                is_async: false,
                parameters: Vec::new(),
            });
        }
    }

    fn add(
        &mut self,
        module: ModuleId,
        types: &Types<'_, Attached>,
        emitter: &Result<Emitter, HResult>,
        method: Match,
    ) {
        let metadata = types.metadata;
        let signature = remora_il::MethodSignature::read(&method.row.signature).ok();
        let parameters = signature.map_or_else(Vec::new, |signature| {
            // What a task has is recorded, not the task.
            let of_task = signature.result.and_then(NamedType::of).and_then(|task| task.argument);
            let result = if method.steps.is_some() { of_task } else { signature.result };
            types.parameters(method.token, &signature, result, usize::MAX)
        });
        // Patterns are for the name alone.
        let shown = method.name.clone() + &metadata.overload(method.row.class, &method.row.name, &method.row.signature);
        if let Some(index) = self.wrap_machine(module, types, emitter, &method) {
            self.name(Some(index), &method.name, false);
            let (index, name, remark) = (Some(index), shown, String::new());
            let message = FromTracer::Method { index, name, remark, steps_of: None, is_async: true, parameters };
            return self.outbox.push(message);
        }
        let wrapped = self.wrap(module, types, emitter, &method.row);
        let (index, remark) = match wrapped {
            Ok(index) if method.steps.is_none() && returns_task(metadata, &method.row) => {
                (Some(index), RETURNS_TASK.to_owned())
            }
            Ok(index) => (Some(index), String::new()),
            Err(why) => (None, why.to_string()),
        };
        let steps = method.steps.zip(index);
        let is_async = false;
        self.name(index, &method.name, false);
        let name = shown.clone();
        self.outbox.push(FromTracer::Method { index, name, remark, steps_of: None, is_async, parameters });
        let Some((token, steps_of)) = steps else { return };
        let Ok(row) = metadata.method(token) else { return };
        if let Ok(index) = self.wrap(module, types, emitter, &row) {
            self.name(Some(index), &method.name, true);
            let (name, remark, parameters) = (shown, String::new(), Vec::new());
            let (index, steps_of) = (Some(index), Some(steps_of));
            self.outbox.push(FromTracer::Method { index, name, remark, steps_of, is_async, parameters });
        }
    }

    /// Keeps the name of a method that has a number.
    fn name(&mut self, index: Option<u32>, name: &str, is_steps: bool) {
        if let Some(traced) = index.and_then(|index| self.methods.get_mut(index as usize)) {
            (traced.name, traced.is_steps) = (name.to_owned(), is_steps);
        }
    }

    /// Wraps the steps of an asynchronous method, so that they count as one call. `None` if its state machine has no known form.
    fn wrap_machine(
        &mut self,
        module: ModuleId,
        types: &Types<'_, Attached>,
        emitter: &Result<Emitter, HResult>,
        method: &Match,
    ) -> Option<u32> {
        let metadata = types.metadata;
        let row = metadata.method(method.steps.filter(|_| self.has_task_ids)?).ok()?;
        let emitter = emitter.as_ref().ok()?;
        let original = original(self.info, module, MethodToken(row.token)).ok()?;
        let body = Body::read(&original).ok()?;
        let machine = Machine::of(metadata, emitter, &method.row, &body)?;
        // .NET 5 has a switch by which value tasks share their sources: asking such a one for a task would consume it.
        if machine.as_task.is_some() && self.info.get_runtime_information().is_ok_and(|runtime| runtime.major == 5) {
            return None;
        }
        // New references are valid only from here on.
        self.info.apply_meta_data(module, irreversible()).ok()?;
        self.replace(module, types, emitter, &row, |wrapping| {
            wrapping.steps(&method.row, &machine, &body, &row.signature)
        })
        .ok()
    }

    /// Wraps a method, and gives it a number.
    fn wrap(
        &mut self,
        module: ModuleId,
        types: &Types<'_, Attached>,
        emitter: &Result<Emitter, HResult>,
        row: &Method,
    ) -> Result<u32, Untraceable> {
        let emitter = emitter.as_ref().map_err(|code| Untraceable::Runtime(*code))?;
        let info = self.info;
        self.replace(module, types, emitter, row, |wrapping| {
            wrapping.body(row, &original(info, module, MethodToken(row.token))?)
        })
    }

    /// Makes the new body of a method, and gives the method a number.
    fn replace(
        &mut self,
        module: ModuleId,
        types: &Types<'_, Attached>,
        emitter: &Emitter,
        row: &Method,
        body: impl FnOnce(&Wrapping<'_>) -> Result<Vec<u8>, Untraceable>,
    ) -> Result<u32, Untraceable> {
        check(row)?;
        let token = MethodToken(row.token);
        if replacements::index(module, token).is_some() || self.methods.len() >= MOST_METHODS - 1 {
            return Err(Untraceable::Runtime(HResult::S_FALSE));
        }
        let index = self.methods.len() as u32;
        let id = probes::id(self.number, index);
        let body =
            body(&Wrapping { metadata: types.metadata, types, emitter, id, has_arguments: self.request.arguments })?;
        replacements::add(module, token, replacements::Replacement { index, body, is_out: false });
        self.methods.push(Traced { module, token, name: String::new(), is_steps: false, is_out: false });
        Ok(index)
    }

    /// Asks the runtime to replace methods. If it refuses all of them, asks for each.
    fn request_rejit(&mut self, wanted: Vec<usize>) -> Result<(), HResult> {
        self.is_changed = true;
        let info = self.info;
        let methods: Vec<_> = wanted.iter().map(|index| self.place(*index)).collect();
        let together = requests::rejit(info, &methods);
        if together.is_ok() {
            return together;
        }
        let is_alone = methods.len() == 1;
        let mut outcome = together;
        for (index, method) in wanted.into_iter().zip(methods) {
            let answer = if is_alone { together } else { requests::rejit(info, &[method]) };
            match answer {
                Ok(()) => outcome = Ok(()),
                Err(code) => {
                    self.switch(index, true);
                    self.connection.send(&FromTracer::Failed { index: index as u32, code: code.0 as u32 });
                }
            }
        }
        outcome
    }

    fn place(&self, index: usize) -> (ModuleId, MethodToken) {
        (self.methods[index].module, self.methods[index].token)
    }

    /// Restores methods.
    fn revert(&self, wanted: &[usize]) -> Vec<HResult> {
        let places: Vec<_> = wanted.iter().map(|index| self.place(*index)).collect();
        requests::revert(self.info, &places)
    }

    fn refused(&mut self, call: &str, code: HResult) {
        self.connection.send(&FromTracer::Refused { call: call.into(), code: code.0 as u32 });
    }

    /// Restores the methods, and makes the agent inert.
    fn end(mut self) {
        shared::set(SESSION, 0);
        let traced = self.matching("*", false);
        let restored = if self.is_changed { self.revert(&traced) } else { Vec::new() };
        let _ = runtime::listen_to_nothing(self.info);
        replacements::clear();
        names::answer(|name| self.connection.send(&name));
        names::forget_all();
        origins::forget_all();
        modules::forget_all();
        let _ = shared::unshare();
        let code = restored.into_iter().find(|code| !code.is_success()).map_or(0, |code| code.0 as u32);
        self.connection.send(&FromTracer::Stopped { why: self.why, code });
    }
}
