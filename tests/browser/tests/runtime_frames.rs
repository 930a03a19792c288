//! The page's choice between one frame for a run of the runtime's frames, and all of them; and the advice at its top.
//! Fails where Chromium or chromedriver is missing: `apt-get install -y chromium chromium-driver`.

use remora_browser::Browser;
use remora_export::Format;
use remora_profile::{
    ApplicationRule, Frame, FrameKind, Meta, Profile, Sample, State, Thread, fold_runtime_frames_and_keep_them,
};
use std::fs::File;
use std::path::PathBuf;

/// The names of the methods in the graph, from the root on, row by row, and those in the table.
const GRAPH: &str = "const { boxes, model, tree } = page.graph; const rows = [];
    for (const at of boxes.id.keys()) (rows[boxes.depth[at]] ??= []).push(boxes.id[at] === 0 ? 'All' : model.methods[tree.method(boxes.id[at])].call);
    return rows.map((row) => row.sort().join(', ')).join(' | ')";
const ROWS: &str = "return [...document.querySelectorAll('#rows .short')].map((name) => name.textContent).join('; ')";

fn open(name: &str, profile: &Profile) -> Browser {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    let mut out = File::create(&path).expect("a file to write");
    remora_export::write(profile, Format::Html, &ApplicationRule::default(), &mut out).expect("written");
    Browser::open(&path)
}

#[test]
fn frames_of_the_runtime_are_one_for_a_run_until_they_are_wanted() {
    let mut profile = Profile::new(Meta { application: "shop".into(), ..Meta::default() });
    let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
    for (leaf, weight) in [("libcoreclr.so+0x20", 3_000_000), ("libcoreclr.so+0x30", 1_000_000)] {
        let frames = [(FrameKind::Managed, "Shop.dll", "Shop.Main()")]
            .into_iter()
            .chain(["libcoreclr.so+0x10", leaf].map(|name| (FrameKind::Native, "libcoreclr.so", name)));
        let frames: Vec<_> = frames
            .map(|(kind, module, name)| {
                let (name, module) = (profile.string(name), Some(profile.string(module)));
                profile.frame(Frame { kind, name, module, file: None, line: None })
            })
            .collect();
        let stack = profile.stack_from_root(frames).expect("frames");
        profile.add_sample(Sample { time: 0, thread, stack, weight, state: State::Running });
    }
    let hidden = |browser: &Browser| browser.run("return document.getElementById('runtime-switch').hidden");
    // With every frame, there is nothing to choose.
    let browser = open("runtime-all", &profile);
    assert_eq!(hidden(&browser), true);
    let browser = open("runtime", &fold_runtime_frames_and_keep_them(profile));
    assert_eq!(hidden(&browser), false);
    let folded = "All | Shop.Main | [runtime]";
    assert_eq!(browser.text(GRAPH), folded);
    browser.click("#runtime-switch");
    assert_eq!(browser.text(GRAPH), "All | Shop.Main | libcoreclr.so+0x10 | libcoreclr.so+0x20, libcoreclr.so+0x30");
    browser.click("#tab-methods");
    assert_eq!(browser.text(ROWS), "libcoreclr.so+0x20; libcoreclr.so+0x30; libcoreclr.so+0x10; Shop.Main()");
    browser.click("#runtime-switch");
    assert_eq!(browser.text(GRAPH), folded);
    assert_eq!(browser.text(ROWS), "[runtime]; Shop.Main()");
}

#[test]
fn problems_and_hints_are_at_the_top_in_words_and_are_only_text() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("advice.html");
    let mut out = File::create(&path).expect("a file to write");
    let advice = ["Problem: spinning. 40% of it in <b>Shop</b>", "Hint: -e wall"].map(str::to_owned);
    let rule = ApplicationRule::default();
    remora_export::write_page(&Profile::default(), &rule, &advice, &mut out).expect("written");
    let browser = Browser::open(&path);
    let shown = "return document.getElementById('advice').textContent";
    assert_eq!(browser.text(shown), "Problem: spinning. 40% of it in <b>Shop</b>Hint: -e wall");
    let browser = open("no-advice", &Profile::default());
    assert_eq!(browser.run("return document.getElementById('advice').hidden"), true);
}
