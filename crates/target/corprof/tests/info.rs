//! What a profiler asks, against a runtime made in Rust: what reaches it, what does not, and that everything is given back.

mod support;

use core::ffi::c_void;
use corprof::*;
use remora_holds::holds;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::objects::{MODULES, enum_modules, get_module_metadata};
use support::{FakeInfo, fake, note, write_text};

unsafe extern "system" fn set_event_mask2(this: *mut c_void, low: u32, high: u32) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, "SetEventMask2") };
    // SAFETY: `this` is the fake runtime whose table has this function.
    let fake = unsafe { fake(this) };
    fake.set("low", low as usize);
    fake.set("high", high as usize);
    fake.number("refuse").map_or(0, |code| code as u32 as i32)
}

unsafe extern "system" fn request_profiler_detach(this: *mut c_void, milliseconds: u32) -> i32 {
    // SAFETY: `this` is the fake runtime whose table has this function.
    unsafe { note(this, "RequestProfilerDetach") };
    // SAFETY: `this` is the fake runtime whose table has this function.
    let fake = unsafe { fake(this) };
    fake.set("milliseconds", milliseconds as usize);
    fake.number("refuse").map_or(0, |code| code as u32 as i32)
}

fn refuse(fake: &FakeInfo, code: HResult) {
    fake.set("refuse", code.0 as u32 as usize);
}

#[test]
fn the_newest_version_is_kept_and_no_reference_is() {
    for newest in 1..=15 {
        let fake = FakeInfo::new(newest);
        let info = fake.info::<Attached>();
        assert_eq!(info.version(), newest);
        assert_eq!(fake.references.load(Ordering::Relaxed), 0);
        assert!(fake.calls().is_empty());
    }
    let fake = FakeInfo::new(0);
    // SAFETY: the caller passes a live object, and holds a reference to it.
    let none = unsafe { Info::<Attached, Alive>::from_unknown(fake.unknown()) };
    assert_eq!(none.map(|info| info.version()), Err(HResult::E_NOINTERFACE));
}

#[test]
fn a_call_that_an_older_runtime_lacks_is_named_and_never_made() {
    let fake = FakeInfo::new(1);
    let info = fake.info::<Attached>();
    let answers = [
        (info.get_function_from_ip3(1).err(), 8),
        (info.get_function_from_ip2(1).err(), 4),
        (info.is_function_dynamic(FunctionId(1)).err(), 8),
        (info.get_dynamic_function_info(FunctionId(1)).err(), 8),
        (info.get_native_code_start_addresses(FunctionId(1), RejitId(0)).err(), 9),
        (info.get_code_info4(1).err(), 9),
        (info.get_code_info3(FunctionId(1), RejitId(0)).err(), 4),
        (info.get_il_to_native_mapping3(1).err(), 9),
        (info.enum_modules().err(), 3),
        (info.enum_jited_functions2().err(), 4),
        (info.enum_threads().err(), 4),
        (info.get_module_info2(ModuleId(1)).err(), 3),
        (info.get_class_id_info2(ClassId(1)).err(), 2),
        (info.get_function_info2(FunctionId(1)).err(), 2),
        (info.get_runtime_information().err(), 3),
        (info.set_event_mask2(AttachMask::NONE, HighAttachMask::BASIC_GC).err(), 5),
        // SAFETY: there is no session.
        (unsafe { info.event_pipe_start_session(&[]) }.err(), 12),
        (info.apply_meta_data(ModuleId(1), irreversible()).err(), 7),
        (info.get_environment_variable("A").err(), 11),
        (info.set_environment_variable("A", "B", irreversible()).err(), 11),
    ];
    for (index, (answer, version)) in answers.into_iter().enumerate() {
        assert_eq!(answer, Some(HResult::info_required(version)), "line {index}");
    }
    let refused = info.request_profiler_detach(Duration::ZERO).err();
    assert_eq!(refused.map(|refused| refused.code), Some(HResult::INFO3_REQUIRED));
    assert!(fake.calls().is_empty(), "{:?}", fake.calls());
}

#[test]
fn a_runtime_without_the_high_half_of_the_mask_gets_the_low_one_alone() {
    let fake = FakeInfo::new(4);
    let info = fake.info::<Attached>();
    assert_eq!(info.set_event_mask2(AttachMask::MODULE_LOADS, HighAttachMask::NONE).err(), Some(HResult::E_NOTIMPL));
    assert_eq!(info.get_event_mask2().err(), Some(HResult::E_NOTIMPL));
    assert_eq!(fake.calls(), ["SetEventMask", "GetEventMask"]);
}

#[test]
fn att_12_masks_reach_the_runtime_whole_and_its_refusal_comes_back() {
    let fake = FakeInfo::new(15).answer("SetEventMask2", set_event_mask2 as *const ());
    let info = fake.info::<Attached>();
    let low = AttachMask::MODULE_LOADS | AttachMask::JIT_COMPILATION;
    assert_eq!(info.set_event_mask2(low, HighAttachMask::BASIC_GC), Ok(()));
    holds!(ATT_12 rem, (fake.number("low"), fake.number("high")) == (Some(0x24), Some(0x10)));
    assert_eq!(info.set_event_mask2(NotificationMask::THREADS, HighAttachMask::NONE), Ok(()));
    assert_eq!((fake.number("low"), fake.number("high")), (Some(0x200), Some(0)));
    let irreversible = IrreversibleMask::enable_rejit(AttachMask::NONE, irreversible());
    assert_eq!(info.set_event_mask2_irreversible(irreversible, HighAttachMask::NONE), Ok(()));
    assert_eq!(fake.number("low"), Some(0x4_0000));
    refuse(&fake, HResult::E_INVALIDARG);
    holds!(ATT_12 rem, info.set_event_mask2(AttachMask::GC, HighAttachMask::NONE) == Err(HResult::E_INVALIDARG));
}

#[test]
fn att_17_a_profiler_loaded_with_the_process_may_set_any_flag() {
    let fake = FakeInfo::new(15).answer("SetEventMask2", set_event_mask2 as *const ());
    let info = fake.info::<Startup>();
    let low = StartupMask::from_bits(sys::COR_PRF_MONITOR_ENTERLEAVE | sys::COR_PRF_DISABLE_INLINING);
    let high = HighStartupMask::from_bits(sys::COR_PRF_HIGH_DISABLE_TIERED_COMPILATION);
    assert_eq!(info.set_event_mask2(low.expect("any flag"), high.expect("any flag")), Ok(()));
    holds!(ATT_17 rem, (fake.number("low"), fake.number("high")) == (Some(0x20_1000), Some(8)));
}

#[test]
fn det_02_a_refused_detach_gives_the_info_back_alive() {
    let fake = FakeInfo::new(15)
        .answer("RequestProfilerDetach", request_profiler_detach as *const ())
        .answer("SetEventMask2", set_event_mask2 as *const ());
    let mut info = fake.info::<Attached>();
    let codes = [
        HResult::CORPROF_E_IMMUTABLE_FLAGS_SET,
        HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT,
        HResult::CORPROF_E_PROFILER_NOT_YET_INITIALIZED,
        HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE,
    ];
    for code in codes {
        refuse(&fake, code);
        let answer = info.request_profiler_detach(Duration::from_millis(300));
        holds!(DET_02 rem, answer.as_ref().err().map(|refused| refused.code) == Some(code));
        let refused = answer.expect_err("refused");
        assert!(refused.to_string().contains(code.name().expect("a name")), "{refused}");
        info = refused.info;
    }
    refuse(&fake, HResult::S_OK);
    assert_eq!(info.set_event_mask2(AttachMask::NONE, HighAttachMask::NONE), Ok(()));
}

#[test]
fn det_20_nothing_is_called_after_an_accepted_detach() {
    let cases = [(Duration::from_millis(300), 300), (Duration::ZERO, 0), (Duration::MAX, u32::MAX as usize)];
    for (expected, milliseconds) in cases {
        let fake = FakeInfo::new(15)
            .answer("RequestProfilerDetach", request_profiler_detach as *const ())
            .answer("EnumModules", enum_modules as *const ());
        let info = fake.info::<Attached>();
        let first = info.enum_modules().and_then(|mut modules| modules.next().unwrap_or(Err(HResult::E_FAIL)));
        assert_eq!(first, Ok(ModuleId(1)));
        let accepted = info.request_profiler_detach(expected).is_ok();
        assert!(accepted);
        assert_eq!(fake.number("milliseconds"), Some(milliseconds));
        holds!(DET_20 rem, fake.calls() == ["EnumModules", "released", "RequestProfilerDetach"]);
        assert_eq!(fake.references.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn an_enumeration_gives_everything_once_and_is_released() {
    let fake = FakeInfo::new(15).answer("EnumModules", enum_modules as *const ());
    let info = fake.info::<Attached>();
    let modules = info.enum_modules().expect("an enumeration");
    assert_eq!(modules.total(), Ok(MODULES as u32));
    let all: Vec<ModuleId> = modules.collect::<Result<_, _>>().expect("no error");
    assert_eq!(all, (1..=MODULES).map(ModuleId).collect::<Vec<_>>());
    assert_eq!(fake.calls(), ["EnumModules", "released"]);
    let mut left_early = info.enum_modules().expect("an enumeration");
    assert_eq!(left_early.next(), Some(Ok(ModuleId(1))));
    drop(left_early);
    assert_eq!(fake.calls(), ["EnumModules", "released", "EnumModules", "released"]);
}

#[test]
fn cat_05_an_enumeration_that_breaks_off_says_so() {
    let fake = FakeInfo::new(15).answer("EnumModules", enum_modules as *const ());
    fake.set("fail_at", 64);
    let info = fake.info::<Attached>();
    let mut modules = info.enum_modules().expect("an enumeration");
    let given: Vec<_> = modules.by_ref().collect();
    holds!(CAT_05 rem, (given.len(), given.last()) == (65, Some(&Err(HResult::CORPROF_E_PROFILER_DETACHING))));
    assert_eq!(modules.next(), None);
}

#[test]
fn metadata_is_read_and_released() {
    let fake = FakeInfo::new(15).answer("GetModuleMetaData", get_module_metadata as *const ());
    let info = fake.info::<Attached>();
    assert!(info.get_module_metadata(ModuleId(404)).expect("no error").is_none());
    let metadata = info.get_module_metadata(ModuleId(1)).expect("no error").expect("metadata");
    let method = metadata.method(MethodToken(0x0600_0001)).expect("a method");
    assert_eq!((method.name.as_str(), method.attributes, method.signature.as_slice()), ("Run", 6, &[0x20, 0, 1][..]));
    let inner = metadata.type_definition(method.class).expect("a type");
    assert_eq!((inner.name.as_str(), inner.is_nested(), inner.extends), ("Inner`1", true, Token(0x0100_0001)));
    let outer = metadata.enclosing_type(method.class).expect("no error").expect("a type around it");
    assert_eq!(
        metadata.type_definition(outer).map(|outer| (outer.is_nested(), outer.name)),
        Ok((false, "Space.Outer".to_owned()))
    );
    assert_eq!(metadata.enclosing_type(outer), Ok(None));
    let parameters = metadata.generic_parameters(method.class).expect("no error");
    assert_eq!(parameters, [GenericParameter { position: 0, name: "TItem".to_owned() }]);
    assert_eq!(fake.calls(), ["CloseEnum"]);
    drop(metadata);
    assert_eq!(fake.calls(), ["CloseEnum", "released"]);
}

/// A path longer than the first buffer, cut to what it is given.
unsafe extern "system" fn get_module_info2(
    this: *mut c_void,
    module: usize,
    base: *mut *const u8,
    capacity: u32,
    needed: *mut u32,
    text: *mut u16,
    assembly: *mut usize,
    flags: *mut u32,
) -> i32 {
    // SAFETY: the caller passes a fake runtime, a buffer of that capacity, and places for the answers.
    unsafe { note(this, "GetModuleInfo2") };
    // SAFETY: the caller passes a fake runtime, a buffer of that capacity, and places for the answers.
    unsafe { write_text(&"/ä".repeat(module), capacity, needed, text) };
    // SAFETY: the caller passes a fake runtime, a buffer of that capacity, and places for the answers.
    unsafe { base.write(0x1000 as *const u8) };
    // SAFETY: the caller passes a fake runtime, a buffer of that capacity, and places for the answers.
    unsafe { assembly.write(7) };
    // SAFETY: the caller passes a fake runtime, a buffer of that capacity, and places for the answers.
    unsafe { flags.write(9) };
    0
}

#[test]
fn a_long_path_is_asked_for_again_and_comes_whole() {
    let fake = FakeInfo::new(15).answer("GetModuleInfo2", get_module_info2 as *const ());
    let info = fake.info::<Attached>();
    for (length, calls) in [(1, 1), (255, 1), (256, 2), (5000, 2)] {
        let before = fake.calls().len();
        let module = info.get_module_info2(ModuleId(length)).expect("a module");
        assert_eq!(module.path, "/ä".repeat(length));
        assert_eq!((module.base, module.assembly), (0x1000, AssemblyId(7)));
        assert!(module.flags.contains(ModuleFlags::COLLECTIBLE) && !module.flags.contains(ModuleFlags::DYNAMIC));
        assert_eq!(fake.calls().len() - before, calls, "length {length}");
    }
}

/// As many type arguments as the number `arguments`, cut to the buffer.
unsafe extern "system" fn get_function_info2(
    this: *mut c_void,
    function: usize,
    _: usize,
    class: *mut usize,
    module: *mut usize,
    token: *mut u32,
    capacity: u32,
    needed: *mut u32,
    list: *mut usize,
) -> i32 {
    // SAFETY: the caller passes a fake runtime, a buffer of that capacity, and places for the answers.
    let count = unsafe { fake(this) }.number("arguments").unwrap_or(0);
    for (index, argument) in (1..=count).enumerate().take(capacity as usize) {
        // SAFETY: the index is below the capacity of the caller's list.
        unsafe { list.add(index).write(argument) };
    }
    // SAFETY: the index is below the capacity of the caller's list.
    unsafe { needed.write(count as u32) };
    // SAFETY: the index is below the capacity of the caller's list.
    unsafe { class.write(function + 1) };
    // SAFETY: the index is below the capacity of the caller's list.
    unsafe { module.write(function + 2) };
    // SAFETY: the index is below the capacity of the caller's list.
    unsafe { token.write(0x0600_0001) };
    0
}

#[test]
fn type_arguments_of_any_number_come_whole() {
    let fake = FakeInfo::new(15).answer("GetFunctionInfo2", get_function_info2 as *const ());
    let info = fake.info::<Attached>();
    for count in [0, 1, 16, 17, 100] {
        fake.set("arguments", count);
        let function = info.get_function_info2(FunctionId(40)).expect("a function");
        assert_eq!(
            (function.class, function.module, function.token),
            (ClassId(41), ModuleId(42), MethodToken(0x0600_0001))
        );
        assert_eq!(function.type_arguments, (1..=count).map(ClassId).collect::<Vec<_>>());
    }
}

unsafe extern "system" fn start_session(
    this: *mut c_void,
    count: u32,
    configs: *const sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
    _: i32,
    session: *mut u64,
) -> i32 {
    // SAFETY: the caller passes that many configurations.
    let last = unsafe { configs.add(count as usize - 1).read() };
    // SAFETY: `this` is the fake runtime whose table has this function.
    let fake = unsafe { fake(this) };
    fake.set("keywords", last.keywords as usize);
    fake.set("level", last.loggingLevel as usize);
    // SAFETY: a name of one letter at least.
    fake.set("letter", usize::from(unsafe { last.providerName.read() }));
    fake.set("has_filter", usize::from(!last.filterData.is_null()));
    // SAFETY: the caller passes a place for the answer.
    unsafe { session.write(77) };
    0
}

#[test]
fn an_event_pipe_session_is_asked_for_by_name() {
    let fake = FakeInfo::new(12).answer("EventPipeStartSession", start_session as *const ());
    let info = fake.info::<Attached>();
    let provider = |name: &str| ProviderConfig { name: name.to_owned(), keywords: 3, level: 4, filter: String::new() };
    // SAFETY: the fake has no events.
    assert_eq!(unsafe { info.event_pipe_start_session(&[provider("A"), provider("Z")]) }, Ok(SessionId(77)));
    let seen = ["keywords", "level", "letter", "has_filter"].map(|name| fake.number(name));
    assert_eq!(seen, [Some(3), Some(4), Some(usize::from(b'Z')), Some(0)]);
}

#[test]
fn det_22_irreversible_calls_reach_the_runtime_only_with_the_word() {
    let fake = FakeInfo::new(15);
    let info = fake.info::<Attached>();
    let refused = Some(HResult::E_NOTIMPL);
    assert_eq!(info.apply_meta_data(ModuleId(1), irreversible()).err(), refused);
    assert_eq!(info.set_environment_variable("A", "B", irreversible()).err(), refused);
    assert_eq!(info.event_pipe_create_provider("A", irreversible()).err(), refused);
    assert_eq!(info.request_rejit(&[(ModuleId(1), MethodToken(1))], irreversible()).err(), refused);
    let names = ["ApplyMetaData", "SetEnvironmentVariable", "EventPipeCreateProvider", "RequestReJIT"];
    holds!(DET_22 rem, fake.calls() == names);
}

/// What a method of an attached `Info` returns that `corprof` does not have: the trait's method is found, since no own one hides it.
#[derive(Debug)]
struct NoSuchCall;

/// Calls of a profiler from the start: each exists for such a one, and not for an attached one. Otherwise this does not compile.
macro_rules! from_the_start_only {
    ($($call:ident)+) => {
        #[allow(dead_code, reason = "only the names matter")]
        trait Absent {
            $(fn $call(&self) -> NoSuchCall { NoSuchCall })+
        }
        impl Absent for Info<Attached, Alive> {}

        fn absent_calls(info: &Info<Attached, Alive>) -> Vec<NoSuchCall> {
            let _ = ($(Info::<Startup, Alive>::$call),+);
            vec![$(info.$call()),+]
        }
    };
}

from_the_start_only! {
    set_enter_leave_function_hooks3
    set_enter_leave_function_hooks3_with_info
    set_function_id_mapper
    set_function_id_mapper2
}

#[test]
fn att_13_elt_02_hooks_and_mappers_are_no_calls_of_an_attached_profiler() {
    let fake = FakeInfo::new(15);
    holds!([ATT_13 ELT_02] rem, absent_calls(&fake.info::<Attached>()).len() == 4);
    assert!(fake.calls().is_empty(), "none of them reaches the runtime");
}
