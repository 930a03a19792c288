//! The profiled program: threads that load, compile, run and unload at instants that the seed chooses.

use crate::runtime::{FunctionId, LARGE, ModuleId, OFTEN, Runtime, Shape};
use crate::schedule::{self, MILLISECOND, Random, Task};
use std::sync::{Arc, Mutex};

/// Maximum of frames that a thread enters at a time.
const DEPTH: usize = 3;
/// Maximum of events written in a row.
const MOST_EVENTS: usize = 4;
/// GCAllocationTick (source: ClrEtwAll.man).
const ALLOCATION_TICK: u32 = 10;
/// The program's loaded code, and the parts that some thread executes.
#[derive(Default)]
pub struct Program {
    modules: Vec<Loaded>,
}

struct Loaded {
    module: ModuleId,
    functions: Vec<FunctionId>,
    collectible: bool,
    users: u32,
    leaving: bool,
}

/// One thread of it.
struct Thread {
    runtime: Arc<Runtime>,
    interrupt: Interrupt,
    program: Arc<Mutex<Program>>,
    random: Random,
    /// Exceptions it has thrown.
    thrown: u32,
}

/// Runs between two steps of a thread: a signal, for example.
pub type Interrupt = Arc<dyn Fn() + Send + Sync>;

/// Starts `threads` threads with `steps` steps each, drawn from `random`.
pub fn start(
    runtime: &Arc<Runtime>,
    interrupt: &Interrupt,
    random: &mut Random,
    (threads, steps): (usize, usize),
) -> Vec<Task> {
    let program = Arc::new(Mutex::new(Program::default()));
    let start_one = |_| {
        let mut thread = Thread {
            runtime: runtime.clone(),
            interrupt: interrupt.clone(),
            program: program.clone(),
            random: Random::new(random.draw()),
            thrown: 0,
        };
        schedule::spawn("a thread of the application", move || thread.live(steps))
    };
    (0..threads).map(start_one).collect()
}

impl Thread {
    fn live(&mut self, steps: usize) {
        let runtime = self.runtime.clone();
        runtime.begin_thread();
        for _ in 0..steps {
            if runtime.is_exiting() || schedule::is_stopped() {
                return;
            }
            runtime.safepoint();
            self.do_something(&runtime);
            (self.interrupt)();
        }
        runtime.end_thread();
    }

    fn do_something(&mut self, runtime: &Runtime) {
        match self.random.below(12) {
            0 | 1 => self.load(runtime),
            2 | 3 => self.unload(runtime),
            4 | 5 => self.run_a_dynamic_function(runtime),
            6 => schedule::sleep(self.random.below(30) as u64 * MILLISECOND),
            7 => self.use_memory(runtime),
            8 => self.throw(runtime),
            9 => self.write_events(),
            _ => self.run(runtime),
        }
    }

    /// The events of a running program, written on its own thread or on one that the runtime does not know, like a GC thread.
    fn write_events(&mut self) {
        let count = 1 + self.random.below(MOST_EVENTS) as u8;
        let runtime = self.runtime.clone();
        let write = move || (0..count).for_each(|serial| runtime.write_event(ALLOCATION_TICK, &[serial]));
        if self.random.once_in(3) {
            schedule::spawn("a thread that the runtime does not know", write);
        } else {
            write();
        }
    }

    /// Allocates objects, keeps some of them, and then runs out of memory.
    fn use_memory(&mut self, runtime: &Runtime) {
        let class = runtime.framework_class();
        let large = self.random.once_in(4);
        // It lives as long as the second one. A profiler that does not know generation 4 hears of it.
        let first = runtime.allocate(class, Shape { size: 24, pinned: large, ..Shape::default() });
        let size = if large { LARGE } else { 64 };
        let second = runtime.allocate(class, Shape { size, references: vec![first], ..Shape::default() });
        runtime.forget(first);
        runtime.collect(self.random.below(3) as u8);
        if self.random.once_in(2) {
            runtime.forget(second);
        }
    }

    /// In a method, if there is one. Every second exception is caught with a filter, after a finally.
    fn throw(&mut self, runtime: &Runtime) {
        let thrower = self.begin_use();
        let address = thrower.and_then(|(_, function)| runtime.address_of(function));
        address.iter().for_each(|address| runtime.push_frame(address + 4));
        self.thrown += 1;
        if self.thrown.is_multiple_of(2) {
            runtime.throw_and_filter()
        } else {
            runtime.throw_and_catch()
        }
        address.iter().for_each(|_| runtime.pop_frame());
        self.end_use(thrower);
    }

    /// A module with one or two functions. The second one contains the first.
    fn load(&mut self, runtime: &Runtime) {
        let collectible = self.random.below(4) > 0;
        let module = runtime.load_module(collectible);
        let functions: Vec<FunctionId> =
            (0..1 + self.random.below(2)).map(|_| runtime.make_function(module, self.random.below(3) > 0)).collect();
        if let [callee, caller] = functions[..] {
            runtime.inline(caller, callee);
        }
        self.lock().modules.push(Loaded { module, functions, collectible, users: 0, leaving: false });
        self.run(runtime);
    }

    /// Unloads only code that no thread executes.
    fn unload(&mut self, runtime: &Runtime) {
        let leaving = {
            let mut program = self.lock();
            let idle = program.modules.iter_mut().find(|one| one.collectible && one.users == 0 && !one.leaving);
            idle.map(|one| {
                one.leaving = true;
                one.module
            })
        };
        let Some(module) = leaving else { return };
        runtime.unload_module(module);
        self.lock().modules.retain(|one| one.module != module);
    }

    fn run(&mut self, runtime: &Runtime) {
        let chosen: Vec<(ModuleId, FunctionId)> =
            (0..1 + self.random.below(DEPTH)).filter_map(|_| self.begin_use()).collect();
        chosen.iter().for_each(|(_, function)| runtime.compile_again_if_asked(*function));
        let addresses: Vec<u64> = chosen.iter().filter_map(|(_, function)| runtime.address_of(*function)).collect();
        self.execute(runtime, &addresses);
        // A loop of calls is one step.
        let calls = if self.random.once_in(4) { OFTEN } else { 1 };
        chosen.iter().for_each(|(_, function)| runtime.count_calls(*function, calls));
        self.end_use(chosen);
    }

    fn end_use(&self, chosen: impl IntoIterator<Item = (ModuleId, FunctionId)>) {
        let mut program = self.lock();
        for (module, _) in chosen {
            if let Some(one) = program.modules.iter_mut().find(|one| one.module == module) {
                one.users -= 1;
            }
        }
    }

    fn begin_use(&mut self) -> Option<(ModuleId, FunctionId)> {
        let draw = self.random.draw() as usize;
        let mut program = self.lock();
        let mut usable: Vec<&mut Loaded> =
            program.modules.iter_mut().filter(|one| !one.leaving && !one.functions.is_empty()).collect();
        let count = usable.len();
        let one = usable.get_mut(draw.checked_rem(count)?)?;
        one.users += 1;
        Some((one.module, one.functions[draw % one.functions.len()]))
    }

    fn run_a_dynamic_function(&mut self, runtime: &Runtime) {
        let function = runtime.make_dynamic_function();
        let address = runtime.address_of(function);
        self.execute(runtime, address.as_slice());
        runtime.unload_dynamic_function(function);
        // Often a new one follows at once, in the same memory.
        if self.random.once_in(2) {
            let next = runtime.make_dynamic_function();
            let address = runtime.address_of(next);
            self.execute(runtime, address.as_slice());
            runtime.unload_dynamic_function(next);
        }
    }

    /// Calls into each address. Sometimes a signal interrupts it there.
    fn execute(&mut self, runtime: &Runtime, addresses: &[u64]) {
        for address in addresses {
            runtime.push_frame(address + 4);
            let often = if self.random.once_in(8) { 40 } else { 3 };
            for _ in 0..self.random.below(often) {
                crate::runtime::execute(*address);
                (self.interrupt)();
                schedule::point();
            }
        }
        for _ in addresses {
            runtime.pop_frame();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Program> {
        self.program.lock().expect("no panic while locked")
    }
}
