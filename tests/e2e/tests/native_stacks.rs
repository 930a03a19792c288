//! Stacks through native code that keeps no frame pointers: each must end where its thread begins.
//!
//! The C++ unwinder, the C library and OpenSSL are such code.
#![forbid(unsafe_code)]

#[path = "support/recorded.rs"]
mod recorded;

use recorded::{recorded_while_it_uses, target_is_well};
use remora_e2e::read_back::{ReadBack, number, report};
use remora_e2e::{Recorded, Runtime, Target, on_every_runtime, on_runtimes};

/// CPU time of a recording, milliseconds.
const LONG_ENOUGH: u64 = 4000;

/// A thousand samples a second and thread.
const OFTEN: [&str; 4] = ["--frequency", "1000", "--signal-budget", "2000"];

/// One stack in this many may lack a root: the first samples precede the tables.
const ONE_BROKEN_OF: u64 = 200;

#[test]
fn stacks_through_the_cpp_unwinder_end_where_the_thread_begins() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "exceptions", &[]);
        let recorded = recorded_while_it_uses(&target, LONG_ENOUGH, &OFTEN);
        let read = ends_where_threads_begin(&recorded);
        assert!(read.weight_under("Exceptions.CatchOne(int)") * 2 > read.weight(), "it does little else");
        target_is_well(&mut target);
    });
}

/// .NET Core 3.1 does not support OpenSSL 3. The other runtimes of the matrix do.
#[test]
fn stacks_through_openssl_end_where_the_thread_begins() {
    on_runtimes(&Runtime::from_major(8), |runtime| {
        let mut target = Target::start(runtime, "crypto", &[]);
        let recorded = recorded_while_it_uses(&target, LONG_ENOUGH, &OFTEN);
        let read = ends_where_threads_begin(&recorded);
        for method in ["Crypto.Hash(SHA256, byte[])", "Crypto.Sign(RSA, byte[])"] {
            assert!(
                read.weight_under(method) * 20 > read.weight(),
                "{method}: {} of {}",
                read.weight_under(method),
                read.weight()
            );
        }
        target_is_well(&mut target);
    });
}

/// At most a few stacks have no root, and those are counted.
#[track_caller]
fn ends_where_threads_begin(recorded: &Recorded) -> ReadBack {
    let shown = report(&recorded.output());
    let (samples, broken) = (number(&shown["samples"]), number(&shown["loss"]["broken_stacks"]));
    assert!(samples > 1000, "{}", recorded.finished);
    assert!(broken * ONE_BROKEN_OF <= samples, "{broken} of {samples} stacks are broken");
    let read = ReadBack::of(recorded);
    let rootless =
        read.stacks.iter().filter(|stack| !read.names(stack).first().is_some_and(|name| is_thread_entry(name)));
    let rootless: Vec<Vec<&str>> = rootless.map(|stack| read.names(stack).into_iter().take(4).collect()).collect();
    // Equal stacks are merged here, and marks are counted by sample: rootless stacks cannot outnumber them.
    assert!(rootless.len() as u64 <= broken, "{broken} are marked, without a root are {rootless:?}");
    read
}

/// The C library's `clone`, whose name differs between versions, or the executable's `_start`, which has no name.
fn is_thread_entry(name: &str) -> bool {
    name.trim_start_matches('_').starts_with("clone") || name == "_start" || name.starts_with("dotnet+0x")
}
