//! The tables of a recording's page in a real browser.
//! Fails where Chromium or chromedriver is missing: `apt-get install -y chromium chromium-driver`.

mod opened;

use opened::{ROWS, open};
use remora_profile::{Event, Frame, FrameKind, Meta, Profile, Sample, State, Thread};

#[test]
fn the_hot_lines_of_a_method_are_in_its_row() {
    let mut profile = Profile::new(Meta { duration: 100, frequency: 100, ..Meta::default() });
    let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
    for (line, weight) in [(7, 60), (9, 36), (11, 4)] {
        let text = ["Shop.Stock.Take()", "Shop.dll", "Stock.cs"].map(|text| profile.string(text));
        let frame = Frame {
            kind: FrameKind::Managed,
            name: text[0],
            module: Some(text[1]),
            file: Some(text[2]),
            line: Some(line),
        };
        let frame = profile.frame(frame);
        let stack = profile.stack_from_root([frame]).expect("there is a frame");
        profile.add_sample(Sample { time: 0, thread, stack, weight, state: State::Running });
    }
    let browser = open("lines", &profile);
    let row = browser.text("return document.querySelector('#rows tr').textContent.replaceAll('\\u202f', ' ')");
    assert!(
        row.contains("in Stock.cs:7 60.0 %") && row.contains("in Stock.cs:9 36.0 %") && !row.contains(":11"),
        "{row}"
    );
}

#[test]
fn a_recording_of_threads_that_only_wait_had_no_table_of_waits() {
    let mut profile = Profile::new(Meta { event: Event::Wall, duration: 100, frequency: 100, ..Meta::default() });
    let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
    let mut frame = |name: &str, module: &str| {
        let (name, module) = (profile.string(name), Some(profile.string(module)));
        profile.frame(Frame { kind: FrameKind::Managed, name, module, file: None, line: None })
    };
    let frames = [
        frame("Shop.Stock.Take()", "Shop.dll"),
        frame("System.Threading.Monitor.Enter(object)", "System.Private.CoreLib.dll"),
    ];
    let stack = profile.stack_from_root(frames).expect("there are frames");
    profile.add_sample(Sample { time: 0, thread, stack, weight: 100, state: State::Blocked });
    let browser = open("deadlock", &profile);
    browser.click("#tab-waits");
    assert_eq!(browser.text(ROWS), "Stock.Take()");
    assert!(browser.text("return document.getElementById('rows').textContent").contains("lock"));
}
