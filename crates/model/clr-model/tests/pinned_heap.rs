//! Objects of the pinned object heap.

mod support;

use corprof::HResult;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::Shape;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use support::{application, in_worlds, join};

/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;

#[test]
fn gch_02_a_pinned_object_stays_in_generation_4_where_there_is_one() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let class = world.runtime.define_class(None, None);
        let set = |script: &Script| assert_eq!(script.set_mask_low(MONITOR_GC), HResult::S_OK);
        let _ = world.attached(Script::new().on("InitializeForAttach", set));
        let has_pinned = ![RuntimeVersion::Core3, RuntimeVersion::Desktop4].contains(&world.runtime.runtime_version);
        join(&[application(world, move |runtime| {
            let pinned = runtime.allocate(class, Shape { size: 24, pinned: true, ..Shape::default() });
            let before = runtime.object(pinned);
            (0..4).for_each(|_| runtime.collect(2));
            holds!(GCH_02 sim, runtime.generations() == [if has_pinned { 4 } else { 2 }]);
            assert!(!has_pinned || runtime.object(pinned) == before, "it never moves");
        })]);
    });
}
