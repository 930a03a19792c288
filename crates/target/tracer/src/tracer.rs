//! The callback object: begins in Initialize, and decides what is hooked.

use crate::application::Choice;
use crate::calibration::calibrate;
use crate::clock::{HookClock, monotonic};
use crate::state::{RUNNING, Running, STATE, State};
use crate::{allocations, arguments, fixed_modules, functions, hooks, threads};
use corprof::{
    Alive, ClassId, EnterLeave3, EnterLeave3WithInfo, FunctionId, HResult, HighStartupMask, Info, ModuleId, ObjectId,
    ProfilerCallback, Startup, StartupMask, ThreadId, sys,
};
use remora_call_table::{Clock, Table, Text, layout};
use remora_connection::{Channel, Mapping, remove_abandoned, set_back_in_runtime, take_order};
use remora_wire::{AgentError, AgentErrorCode, Config, FromAgent, Received, STARTUP_LIMIT, Task, ToAgent};
use std::ffi::c_void;
use std::time::Instant;

/// The callbacks: compilations and inlining, exceptions, threads, unloads; and the hooks.
///
/// With MONITOR_ENTERLEAVE the runtime uses no precompiled (ReadyToRun) code, and does not even look for it: seen on 3.1, 8, 9 and 10, where
/// JITCachedFunctionSearchStarted never comes, and the framework's methods have hooks.
const LOW_MASK: u32 = sys::COR_PRF_MONITOR_ENTERLEAVE
    | sys::COR_PRF_MONITOR_JIT_COMPILATION
    | sys::COR_PRF_MONITOR_EXCEPTIONS
    | sys::COR_PRF_MONITOR_THREADS
    | sys::COR_PRF_MONITOR_MODULE_LOADS
    | sys::COR_PRF_MONITOR_FUNCTION_UNLOADS;

/// Readings of both clocks at the start.
const READINGS: usize = 16;

/// The callback object.
pub struct Tracer;

impl Tracer {
    /// Decides about a function.
    fn decide(&self, function: FunctionId) -> Option<u32> {
        let (running, state) = (RUNNING.get()?, STATE.get()?);
        functions::decide(state, &running.info, &running.choice, function)
    }
}

impl ProfilerCallback for Tracer {
    fn on_panic(&self, _slot: &'static str) {
        if let Some(state) = STATE.get() {
            state.table.count(layout::PANICS);
        }
    }

    fn initialize(&self, info: Info<Startup, Alive>) -> Result<(), HResult> {
        // The standard hook would print to the target's standard error. This library has its own copy of the hook.
        std::panic::set_hook(Box::new(|_| {}));
        let order = take_order().ok_or(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION)?;
        set_back_in_runtime(&info, &order);
        let config = Config::decode(&order.config).map_err(|_| HResult::E_INVALIDARG)?;
        if !matches!(config.task, Task::Tracing { .. }) {
            return Err(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
        }
        // Nobody waits for the second process of a script, nor for one whose recorder is dead: it starts without the tracer.
        let Ok(mut channel) = Channel::connect(&config.socket_path) else {
            remove_abandoned(&config.socket_path);
            return Err(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
        };
        channel.send(&FromAgent::Hello { version: remora_wire::VERSION, nonce: config.nonce });
        let begun = welcomed(&mut channel).and_then(|state| {
            self.begin(state, info).map_err(|code| AgentErrorCode::HooksRefused.with(u64::from(code.0 as u32)))
        });
        channel.send(&begun.map_or_else(FromAgent::Failed, |time| FromAgent::Started {
            signal: 0,
            thread: 0,
            threads: 0,
            time,
            engine: "enter and leave hooks".into(),
        }));
        begun.map(|_| ()).map_err(|_| {
            remove_abandoned(&config.socket_path);
            HResult::E_FAIL
        })
    }

    fn jit_compilation_started(&self, function: FunctionId, _is_safe_to_block: bool) {
        self.decide(function);
    }

    fn jit_inlining(&self, _caller: FunctionId, callee: FunctionId) -> bool {
        let is_hooked = self.decide(callee).is_some();
        if is_hooked && let Some(state) = STATE.get() {
            state.table.count(layout::INLINING_REFUSED);
        }
        !is_hooked
    }

    fn function_unload_started(&self, function: FunctionId) {
        functions::forget(function);
    }

    fn module_load_finished(&self, module: ModuleId, status: HResult) {
        // A module that could not be loaded is gone after this.
        if let Some(running) = RUNNING.get()
            && status.is_success()
            && fixed_modules::is_fixed(&running.info, module)
        {
            fixed_modules::add(module);
        }
    }

    fn module_unload_started(&self, module: ModuleId) {
        functions::forget_module(module);
    }

    fn object_allocated(&self, object: ObjectId, class: ClassId) {
        if let (Some(running), Some(state)) = (RUNNING.get(), STATE.get()) {
            allocations::count(state, &running.info, object, class);
        }
    }

    fn class_unload_started(&self, class: ClassId) {
        allocations::forget(class);
    }

    fn thread_assigned_to_os_thread(&self, thread: ThreadId, os_thread: u32) {
        if let Some(state) = STATE.get() {
            threads::begin(state, thread.0, os_thread);
        }
    }

    fn thread_destroyed(&self, thread: ThreadId) {
        if let Some(state) = STATE.get() {
            threads::end(state, thread.0);
        }
    }

    fn thread_name_changed(&self, thread: ThreadId, name: &[u16]) {
        if let Some(state) = STATE.get() {
            threads::name(state, thread.0, String::from_utf16_lossy(name).as_bytes());
        }
    }

    fn exception_unwind_function_enter(&self, function: FunctionId) {
        if let Some(state) = STATE.get()
            && let Some(thread) = threads::current(state)
        {
            state.table.unwind_begins(thread, functions::known(function), &state.clock);
        }
    }

    fn exception_unwind_function_leave(&self) {
        if let Some(state) = STATE.get()
            && let Some(thread) = threads::current(state)
        {
            state.table.unwind_ends(thread, &state.clock);
        }
    }

    fn exception_catcher_enter(&self, _function: FunctionId, _object: ObjectId) {
        if let Some(state) = STATE.get()
            && let Some(thread) = threads::current(state)
        {
            state.table.unwind_is_caught(thread);
        }
    }
}

impl Tracer {
    /// Sets mask and hooks. Returns the monotonic time.
    fn begin(&self, state: State, info: Info<Startup, Alive>) -> Result<u64, HResult> {
        let choice = choice(&state.table);
        let state = STATE.get_or_init(|| state);
        // The runtime calls hooks with info by code of its own, which only a compiled method can call.
        if !state.has_values {
            calibrate(state);
        }
        let counts_objects = state.table.header(layout::ALLOCATIONS) != 0;
        if counts_objects {
            allocations::prepare(state);
        }
        let more = if counts_objects { allocations::LOW_MASK } else { 0 };
        let more = more | if state.has_values { arguments::LOW_MASK } else { 0 };
        let low = StartupMask::from_bits(LOW_MASK | more).map_err(|_| HResult::E_INVALIDARG)?;
        info.set_event_mask2(low, HighStartupMask::NONE)?;
        // SAFETY: the mapper stays callable: this library is never unloaded. Its data is the callback object, which the runtime keeps.
        unsafe { info.set_function_id_mapper2(map, std::ptr::from_ref(self).cast_mut().cast()) }?;
        set_hooks(state, &info)?;
        // Another thread can run between two readings: the closest ones of several count.
        let reading = |_| {
            let before = monotonic();
            let ticks = state.clock.now();
            (monotonic() - before, before, ticks)
        };
        let (_, time, ticks) = (0..READINGS).map(reading).min().unwrap_or_default();
        state.table.set_header(layout::STARTED_MONOTONIC, time);
        state.table.set_header(layout::STARTED, ticks);
        let _ = RUNNING.set(Running { info, choice });
        Ok(time)
    }
}

/// Sets the fast hooks, or those with info.
fn set_hooks(state: &State, info: &Info<Startup, Alive>) -> Result<(), HResult> {
    if state.has_values {
        let hooks = EnterLeave3WithInfo {
            enter: Some(hooks::enter_with_info),
            leave: Some(hooks::leave_with_info),
            tailcall: Some(hooks::tailcall_with_info),
        };
        // SAFETY: functions of the C convention, which the runtime's own code calls (`hooks.rs`). This library is never unloaded.
        return unsafe { info.set_enter_leave_function_hooks3_with_info(hooks) };
    }
    let hooks = EnterLeave3 { enter: Some(hooks::enter), leave: Some(hooks::leave), tailcall: Some(hooks::leave) };
    // SAFETY: the stubs preserve the registers that the JIT expects (`hooks.rs`), and this library is never unloaded.
    unsafe { info.set_enter_leave_function_hooks3(hooks) }
}

/// Chooses whether a function is hooked, and gives its hooks the method's number.
unsafe extern "C" fn map(function: usize, data: *mut c_void, hook: *mut sys::BOOL) -> usize {
    // SAFETY: the data given with this function: the callback object's state, which lives as long as the process.
    let tracer = unsafe { &*data.cast::<Tracer>() };
    // No panic may cross into the runtime: the answer is then "no hooks".
    let decided = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tracer.decide(FunctionId(function))));
    let number = decided.unwrap_or_else(|_| {
        tracer.on_panic("FunctionIDMapper2");
        None
    });
    if !hook.is_null() {
        // SAFETY: not null, so the runtime's own place for the answer.
        unsafe { hook.write(sys::BOOL::from(number.is_some())) };
    }
    number.map_or(function, |number| number as usize)
}

/// Waits for the recorder's memory, and maps it for ever.
fn welcomed(channel: &mut Channel) -> Result<State, AgentError> {
    let deadline = Instant::now() + STARTUP_LIMIT;
    loop {
        match channel.receive() {
            Received::Message(ToAgent::Welcome) => break,
            Received::Message(_) => {}
            Received::HungUp => return Err(AgentErrorCode::NotWanted.into()),
            Received::Nothing => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(AgentErrorCode::NotWanted.into());
                }
                let mut poll = libc::pollfd { fd: channel.descriptor(), events: libc::POLLIN, revents: 0 };
                // SAFETY: one live pollfd.
                unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as i32 + 1) };
            }
        }
    }
    let descriptor = channel.take_descriptor().ok_or(AgentErrorCode::SharedMemory)?;
    let memory = |error: i32| AgentErrorCode::SharedMemory.with(error as u64);
    let mapping = Box::leak(Box::new(Mapping::whole(std::os::fd::AsRawFd::as_raw_fd(&descriptor)).map_err(memory)?));
    // SAFETY: the mapping is leaked, so it is never unmapped.
    let words = unsafe { mapping.words() };
    let table = Table::new(words).ok_or(AgentErrorCode::SharedMemory)?;
    if table.header(layout::WORD_MAGIC) != layout::MAGIC {
        return Err(AgentErrorCode::SharedMemoryVersion.into());
    }
    let clock = match table.header(layout::TIME_STAMP_COUNTER) {
        0 => HookClock::Monotonic,
        _ => HookClock::TimeStampCounter,
    };
    Ok(State { table, clock, has_values: table.header(layout::HAS_VALUES) != 0 })
}

fn choice(table: &Table<'_>) -> Choice {
    let lines = |word| {
        let mut bytes = Vec::new();
        table.text(Text::unpacked(table.header(word)), |byte| bytes.push(byte));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    Choice {
        wanted: lines(layout::WANTED),
        excluded: lines(layout::EXCLUDED),
        with_framework: table.header(layout::WITH_FRAMEWORK) != 0,
    }
}
