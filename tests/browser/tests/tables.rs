//! The tables of a recording's page in a real browser.
//! Fails where Chromium or chromedriver is missing: `apt-get install -y chromium chromium-driver`.

mod opened;

use opened::{ROWS, open};
use remora_profile::{Event, Frame, FrameKind, Meta, Profile, Sample, State, Thread, Unit};

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

/// Once, it was nothing for every method: the innermost boxes are types.
#[test]
fn regression_the_self_column_of_allocations_had_the_objects_of_types_only() {
    let mut profile = Profile::new(Meta { unit: Unit::Bytes, duration: 100, ..Meta::default() });
    let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
    let mut frame = |name: &str, kind: FrameKind| {
        let module = (kind == FrameKind::Managed).then(|| profile.string("Shop.dll"));
        let name = profile.string(name);
        profile.frame(Frame { kind, name, module, file: None, line: None })
    };
    let [main, load] = ["Shop.Program.Main", "Shop.Orders.Load"].map(|name| frame(name, FrameKind::Managed));
    let order = frame("new Shop.Order", FrameKind::Synthetic);
    for (stack, weight) in [(&[main, order][..], 100), (&[main, load, order], 300)] {
        let stack = profile.stack_from_root(stack.iter().copied()).expect("there are frames");
        profile.add_sample(Sample { time: 0, thread, stack, weight, state: State::Running });
    }
    let browser = open("allocated", &profile);
    let rows = "return [...document.querySelectorAll('#rows tr')].map((row) => [row.querySelector('.short').textContent, \
                ...[...row.querySelectorAll('.time')].map((cell) => cell.textContent)].join(' ')).join('; ') \
                .replaceAll(/[\\u202f\\u00a0]/g, ' ')";
    assert_eq!(browser.text(rows), "Orders.Load 300 B 300 B; Program.Main 100 B 400 B");
    let lines = browser.text("return document.querySelector('#rows tr').textContent.replaceAll('\\u202f', ' ')");
    assert!(lines.contains("Shop.dllnew Shop.Order 75.0 %"), "{lines}");
    browser.click("#tab-methods");
    assert_eq!(browser.text(rows), "new Shop.Order 400 B 400 B; Orders.Load 300 B 300 B; Program.Main 100 B 400 B");
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
}
