//! Tiered compilation on live runtimes and their models: a method called often is recompiled under the same id.
//!
//! The profiler is `tests/probe`. Remora takes no part.
#![forbid(unsafe_code)]

#[path = "support/answers.rs"]
mod answers;

use answers::ask;
use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};
use remora_holds::holds;

const JIT: u32 = 0x20;
const DONE: u64 = 0;
/// Other tests disable this, since it compiles at any time.
const WITH_TIERS: [(&str, &str); 2] = [("COMPlus_TieredCompilation", "1"), ("DOTNET_TieredCompilation", "1")];

/// Optimized bodies of a method in the end: since .NET 8 the first of two is instrumented to guide the second.
fn better_bodies(major: u32) -> usize {
    if major < 8 { 1 } else { 2 }
}

/// A method from the profiler's view.
struct Method {
    id: String,
    starts: Vec<u64>,
    events: usize,
}

impl Method {
    /// The method of this name among the compiled ones.
    fn called(own: &mut Seat, name: &str) -> Option<Method> {
        let ids = own.ids("JITCompilationFinished");
        let id = ids.iter().find(|id| own.done(&format!("function {id}"))[3] == name)?.clone();
        let answer = ask(own, &format!("every-start {id} 8"));
        assert_eq!(answer.code(), DONE);
        let events = ids.iter().filter(|one| **one == id).count();
        Some(Method { id, starts: answer.numbers[1..].to_vec(), events })
    }

    fn is_listed(&self, own: &mut Seat) -> usize {
        own.done("functions").iter().filter(|one| **one == self.id).count()
    }

    /// Each address is in this method's code, and a query without a body gets the first.
    fn has_all_its_bodies(&self, own: &mut Seat) {
        for start in &self.starts {
            holds!(CAT_08 sim clr, own.done(&format!("address {start:#x}")) == [self.id.as_str()]);
            assert_eq!(ask(own, &format!("pieces-at {start:#x} 8")).code(), DONE);
        }
        holds!(CAT_08 sim clr, ask(own, &format!("code {} ", self.id)).numbers[1] == self.starts[0]);
    }
}

/// Makes the program call two methods until the runtime has compiled the last body of each: the program's own method, and a precompiled
/// one.
fn called_often(stage: &mut Stage, own: &mut Seat, bodies: usize) -> [Method; 2] {
    loop {
        stage.act("a often");
        let [first, second] = ["Called", "CompareOrdinal"].map(|name| Method::called(own, name));
        if let (Some(first), Some(second)) = (first, second)
            && first.starts.len() == bodies
            && second.starts.len() == bodies
            // A body exists before its event.
            && (first.events, second.events) == (bodies, bodies - 1)
        {
            return [first, second];
        }
    }
}

#[test]
fn cat_03_cat_08_a_method_that_is_called_often_is_reported_and_listed_again_and_every_body_is_its_own() {
    in_every_world(|runtime| {
        let mut stage = Stage::start_with(runtime, &WITH_TIERS);
        let mut own = stage.attached(JIT, 0);
        let bodies = 1 + better_bodies(runtime.major());
        let [compiled, precompiled] = called_often(&mut stage, &mut own, bodies);
        holds!(CAT_03 sim clr, compiled.is_listed(&mut own) == bodies, "once for each body");
        compiled.has_all_its_bodies(&mut own);
        holds!(CAT_03 sim clr, precompiled.is_listed(&mut own) == bodies - 1, "the one from before is in no list");
        precompiled.has_all_its_bodies(&mut own);
        stage.leave(own);
    });
}
