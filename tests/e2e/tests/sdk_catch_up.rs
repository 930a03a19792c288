//! Which modules a profiler of the SDK knows, attached to a program that loads and unloads them all the time. The kernel's list of mapped
//! assemblies says which there are.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Start, TIMEOUT, Target, diagnostics, folder, on_every_runtime, sdk_example, until};
use remora_holds::holds;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;

/// `{636F7270-726F-6600-6D6F-64756C650001}`, the class of the module logger.
const CLASS: [u8; 16] = *b"procor\0fmodule\0\x01";
/// Attaches to one process, one after another.
const ATTACHES: usize = 5;
/// Unloads that each of them sees after it has caught up.
const UNLOADS: usize = 10;
/// What the logger writes when it has read its enumeration.
const CAUGHT_UP: &str = "caught up: Ok(())";

#[test]
fn cat_02_cat_03_cat_05_cat_06_cat_07_the_sdk_knows_every_module_once_and_none_that_has_gone() {
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "collectible").ready();
        for _ in 0..ATTACHES {
            // What is mapped before the attach may not be reported as loaded any more.
            let mapped = mapped_assemblies(&target);
            let lines = logged(&target);
            let mut known: BTreeMap<&str, bool> = BTreeMap::new();
            let (mut paths, mut caught_up) = (BTreeSet::new(), false);
            let mut counts = [0; 3];
            for line in &lines {
                if line.starts_with(CAUGHT_UP) {
                    caught_up = true;
                    continue;
                }
                let mut words = line.splitn(3, ' ');
                let (what, id, path) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
                let before = known.insert(id, what != "unloading");
                paths.extend((what != "unloading").then(|| path.to_owned()));
                match what {
                    "found" => {
                        // Neither known already, nor from an enumeration that is older than its unload.
                        holds!([CAT_03 CAT_07] rem, before.is_none(), "{line} in {lines:#?}");
                        counts[0] += 1;
                    }
                    "loaded" => {
                        holds!(CAT_06 rem, before != Some(true), "{line} in {lines:#?}");
                        counts[1] += 1;
                    }
                    _ if caught_up => {
                        // Nothing unloads that was neither found nor reported.
                        holds!([CAT_02 CAT_05] rem, before == Some(true), "{line} in {lines:#?}");
                        counts[2] += 1;
                    }
                    _ => assert_eq!(what, "unloading", "{line}"),
                }
            }
            assert!(caught_up && counts.iter().all(|count| *count > 0), "{counts:?}");
            holds!(CAT_05 rem, !mapped.is_empty() && mapped.is_subset(&paths), "{mapped:#?} {paths:#?}");
        }
        let unloaded = target.ask_number("unloaded");
        until("it comes and goes as before", || target.ask_number("unloaded") > unloaded);
        assert!(target.quit().success());
    });
}

#[test]
fn att_10_an_sdk_profiler_that_refuses_its_attach_is_gone_and_its_code_reaches_the_trigger() {
    const FAIL: u32 = 0x8000_4005;
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "obedient").ready();
        let library = sdk_example("module_logger").to_string_lossy().into_owned();
        for _ in 0..2 {
            // Nobody listens there.
            let refused = diagnostics::attach_profiler(target.pid(), &CLASS, &library, b"/nowhere/s");
            holds!(ATT_10 rem, refused == Err(FAIL));
            until("the example is unmapped", || !Facts::of(target.pid()).maps.iter().any(|map| map.name == library));
        }
        assert_eq!(target.ask("a load"), "obedient");
        assert!(target.quit().success());
    });
}

/// Attaches the logger until it has seen some unloads. Returns its lines.
fn logged(target: &Target) -> Vec<String> {
    let folder = folder();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let library = sdk_example("module_logger").to_string_lossy().into_owned();
    let data = path.to_string_lossy().into_owned();
    let answer = diagnostics::attach_profiler(target.pid(), &CLASS, &library, data.as_bytes());
    assert_eq!(answer, Ok(()));
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (mut lines, mut unloads) = (Vec::new(), None);
    for line in BufReader::new(&stream).lines().map(Result::unwrap) {
        if line.starts_with("detached, ") {
            assert_eq!(line, "detached, 0 lines lost");
            break;
        }
        if line.starts_with(CAUGHT_UP) {
            unloads = Some(0);
        } else if let Some(unloads) = unloads.as_mut().filter(|_| line.starts_with("unloading")) {
            *unloads += 1;
            if *unloads == UNLOADS {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
        lines.push(line);
    }
    until("the example is unmapped", || !Facts::of(target.pid()).maps.iter().any(|map| map.name == library));
    lines
}

/// The assemblies that the kernel shows.
fn mapped_assemblies(target: &Target) -> BTreeSet<String> {
    let maps = Facts::of(target.pid()).maps;
    maps.iter().map(|map| map.name.clone()).filter(|name| name.ends_with(".dll")).collect()
}
