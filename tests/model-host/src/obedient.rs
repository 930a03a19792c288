//! The program `obedient`, as `tests/targets/obedient.cs` has it: two threads, each of which does one thing when it is told to.

use crate::obedient_metadata;
use remora_clr_model::host;
use remora_clr_model::runtime::{Called, ClassId, FunctionId, ModuleId, OFTEN, Runtime, Shape};
use remora_clr_model::schedule;
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Bytes of an array of 200,000 bytes, and of one of 100.
const LARGE: usize = 200_024;
const SMALL: usize = 124;
/// So many are many.
const MANY: usize = 10;
/// Bytes of a method before its first call.
const PROLOGUE: u64 = 4;

/// What the framework's library and the program are called, with the classes of their methods.
const FRAMEWORK: Called =
    Called { module: "System.Private.CoreLib", class: "System.Runtime.Loader.AssemblyLoadContext" };
const OWN: Called = Called { module: "obedient", class: "Obedient" };

/// What both threads share.
struct Program {
    runtime: Arc<Runtime>,
    /// The program's own module.
    own: ModuleId,
    /// The framework's method that loads assemblies, precompiled as all of the framework.
    loads_assemblies: FunctionId,
    /// Another one of it, that is called often.
    compares: FunctionId,
    /// Arrays of bytes.
    array: ClassId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Methods of its own that have run: the first time each has to be compiled.
    compiled: BTreeMap<&'static str, FunctionId>,
    /// Modules that can be unloaded, the last one first.
    contexts: Vec<ModuleId>,
}

/// One of the two threads.
struct Worker {
    orders: Sender<String>,
    answers: Receiver<String>,
}

/// Runs on the calling thread until it is told to quit, or nobody is there to tell it.
pub fn run(runtime: &Arc<Runtime>) {
    runtime.begin_thread();
    let program = Arc::new(Program::begin(runtime));
    let workers = BTreeMap::from([("a", Worker::begin(&program)), ("b", Worker::begin(&program))]);
    program.say("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok).take_while(|line| line != "quit") {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["start", worker, verb] => {
                workers[worker].start(verb);
                program.say("started");
            }
            ["finish", worker] => program.say(&workers[worker].finish()),
            [worker, verb] => {
                workers[worker].start(verb);
                program.say(&workers[worker].finish());
            }
            _ => program.say("unknown"),
        }
    }
}

impl Worker {
    fn begin(program: &Arc<Program>) -> Worker {
        let (orders, to_do) = channel::<String>();
        let (done, answers) = channel();
        let program = program.clone();
        schedule::spawn("a thread of the program", move || {
            program.runtime.begin_thread();
            for verb in to_do {
                program.runtime.safepoint();
                let answer = program.do_(&verb);
                if done.send(answer.to_owned()).is_err() {
                    return;
                }
            }
        });
        Worker { orders, answers }
    }

    fn start(&self, verb: &str) {
        self.orders.send(verb.to_owned()).expect("the thread lasts as long as the program");
    }

    fn finish(&self) -> String {
        self.answers.recv().expect("the thread lasts as long as the program")
    }
}

impl Program {
    fn begin(runtime: &Arc<Runtime>) -> Program {
        // The library with the framework's classes, and the program.
        let image = host::map_image(c"System.Private.CoreLib.dll").expect("memory for an image");
        let framework = runtime.load_image(image, FRAMEWORK);
        let loads_assemblies = runtime.make_function_called(framework, false, Some("LoadFromStream"));
        let own = runtime.load_module_with(OWN, obedient_metadata::contents());
        let array = runtime.define_array(runtime.define_class(Some(framework), None));
        let compares = runtime.make_function_called(framework, false, Some("CompareOrdinal"));
        let runtime = runtime.clone();
        let program = Program { runtime, own, loads_assemblies, compares, array, state: Mutex::default() };
        let main = program.compiled("Main");
        program.enter(main);
        program
    }

    /// Writing is managed code: it waits where that has to stand still.
    fn say(&self, line: &str) {
        self.runtime.safepoint();
        // Nobody reads: then nobody tells either, and the program ends.
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }

    fn do_(&self, verb: &str) -> &'static str {
        self.inside("Do", || self.do_one(verb))
    }

    fn do_one(&self, verb: &str) -> &'static str {
        match verb {
            "rest" => "rested",
            "load" => self.inside("Load", || self.load()),
            "many" => self.inside("Many", || self.many()),
            "unload" => self.inside("Unload", || self.unload()),
            "often" => self.inside("Often", || self.often()),
            "jit" => self.inside("Compile", || self.compile()),
            "dynamic" => self.inside("Emit", || self.emit()),
            "throw" => self.inside("Throw", || self.throw()),
            "filter" => self.inside("Filter", || self.filter()),
            "large" => self.allocate(LARGE),
            "small" => self.allocate(SMALL),
            "gc" => {
                self.runtime.collect_all();
                "collected"
            }
            "name" => self.name_thread(),
            "block" => {
                self.runtime.block_finalizer(true);
                "blocked"
            }
            "unblock" => {
                self.runtime.block_finalizer(false);
                "unblocked"
            }
            _ => "unknown",
        }
    }

    fn load(&self) -> &'static str {
        self.enter(self.loads_assemblies);
        let module = self.runtime.load_module(true);
        self.runtime.pop_frame();
        self.lock().contexts.push(module);
        "obedient"
    }

    /// Modules and compiled methods that were not there before, one after the other.
    fn many(&self) -> &'static str {
        for _ in 0..MANY {
            self.inside("Load", || self.load());
            self.inside("Compile", || self.compile());
        }
        "many"
    }

    fn unload(&self) -> &'static str {
        let Some(module) = self.inside("BeginUnload", || self.lock().contexts.pop()) else { return "alive" };
        self.runtime.collect_all();
        if self.runtime.unload_module(module) { "unloaded" } else { "alive" }
    }

    /// An instance of a generic method that there was not before.
    fn compile(&self) -> &'static str {
        self.runtime.make_function_called(self.own, true, Some("Fresh"));
        "7"
    }

    /// A method of the program's own and one of the framework's, so often that the runtime makes better bodies of them.
    fn often(&self) -> &'static str {
        let called = self.compiled("Called");
        for function in [called, self.compares] {
            self.enter(function);
            self.runtime.pop_frame();
            self.runtime.count_calls(function, OFTEN);
        }
        "called"
    }

    fn emit(&self) -> &'static str {
        self.runtime.make_dynamic_function_called(Some("Emitted"));
        "7"
    }

    /// A thread begins, gives itself a name, and ends.
    fn name_thread(&self) -> &'static str {
        let (runtime, (tell, ended)) = (self.runtime.clone(), channel());
        schedule::spawn("a named thread", move || {
            runtime.begin_thread();
            runtime.name_thread("named");
            runtime.end_thread();
            // Who waits may be gone.
            let _ = tell.send(());
        });
        // Its end is also what a thread says that breaks off.
        let _ = ended.recv();
        "named"
    }

    fn throw(&self) -> &'static str {
        self.runtime.throw_and_catch();
        "caught"
    }

    fn filter(&self) -> &'static str {
        self.runtime.throw_and_filter();
        "caught after a finally"
    }

    /// A static field holds the last one.
    fn allocate(&self, size: usize) -> &'static str {
        let object = self.runtime.allocate(self.array, Shape { size, ..Shape::default() });
        self.runtime.set_static(self.array, 1, Some(object));
        self.runtime.forget(object);
        "allocated"
    }

    /// A method of the program's own runs.
    fn inside<T>(&self, name: &'static str, body: impl FnOnce() -> T) -> T {
        let method = self.compiled(name);
        self.enter(method);
        let answer = body();
        self.runtime.pop_frame();
        answer
    }

    /// A method of the program's own: the first time it is compiled.
    fn compiled(&self, name: &'static str) -> FunctionId {
        let known = self.lock().compiled.get(name).copied();
        known.unwrap_or_else(|| {
            let method = self.runtime.make_function_called(self.own, true, Some(name));
            self.lock().compiled.insert(name, method);
            method
        })
    }

    fn enter(&self, function: FunctionId) {
        self.runtime.compile_again_if_asked(function);
        if let Some(address) = self.runtime.address_of(function) {
            self.runtime.push_frame(address + PROLOGUE);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }
}
