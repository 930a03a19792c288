//! What a recording's page looks like: light and dark, by mouse and by finger, with names of any length and script.
//! Fails where Chromium or chromedriver is missing: `apt-get install -y chromium chromium-driver`.

#[path = "../../../crates/host/export/tests/support/mod.rs"]
mod support;

mod opened;

use opened::{ROWS, open};
use remora_browser::Browser;
use remora_profile::{Event, Frame, FrameIx, FrameKind, Meta, Profile, Sample, State, Thread};
use serde_json::json;

const HEBREW: &str = "\u{5e9}\u{5dc}\u{5d5}\u{5dd}";

fn frame(profile: &mut Profile, name: &str, module: &str) -> FrameIx {
    let (name, module) = (profile.string(name), Some(profile.string(module)));
    profile.frame(Frame { kind: FrameKind::Managed, name, module, file: None, line: None })
}

/// Adds a sample of a thread of its own.
fn sample(profile: &mut Profile, thread: (u32, &str), frames: &[FrameIx], weight: u64) -> Sample {
    let thread = profile.add_thread(Thread { id: thread.0, name: thread.1.into() });
    let stack = profile.stack_from_root(frames.iter().copied()).expect("there are frames");
    let sample = Sample { time: 50_000_000, thread, stack, weight, state: State::Running };
    profile.add_sample(sample);
    sample
}

fn profile() -> Profile {
    Profile::new(Meta { frequency: 100, duration: 100_000_000, ..Meta::default() })
}

/// Waits until the page has read when samples were taken.
fn times_are_read(browser: &Browser) {
    browser.run(
        "return new Promise((read) => { const look = () => (page.times === null ? setTimeout(look, 5) : read(true)); look(); })",
    );
}

#[test]
fn texts_have_contrast_in_light_and_dark() {
    let browser = open("contrast", &support::small());
    times_are_read(&browser);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.run("if (page.picked === null) page.pick(page.graph.tree.method(1))");
        assert_eq!(browser.faint_texts(), json!([]), "{scheme}");
    }
}

#[test]
fn a_tap_on_a_box_selects_it() {
    let browser = open("tap", &support::small());
    let at = browser.run(
        "const { boxes, stage } = page.graph; const { left, top } = stage.getBoundingClientRect();
         return [left + boxes.x[1] + boxes.width[1] / 2, top + page.graph.top(boxes.depth[1]) + 10]",
    );
    browser.tap_at(at[0].as_f64().expect("a place"), at[1].as_f64().expect("a place"));
    let status = browser.text("return document.getElementById('status').textContent");
    assert!(status.starts_with("Shop.Program.Main(string[])"), "{status}");
    assert_eq!(browser.run("return document.getElementById('tooltip').hidden"), true, "a finger does not hover");
}

#[test]
fn a_name_of_a_thousand_letters_filled_the_window() {
    let mut profile = profile();
    let long = format!("Shop.{}.{}({})", "C".repeat(300), "M".repeat(900), "int, ".repeat(300));
    let short = frame(&mut profile, "Shop.Program.Main(string[])", "Shop.dll");
    let waits = frame(&mut profile, &format!("System.{}.Wait()", "W".repeat(300)), "System.dll");
    let long = frame(&mut profile, &long, "Shop.dll");
    sample(&mut profile, (1, "main"), &[short, long, waits], 20_000_000);
    sample(&mut profile, (2, "other"), &[short], 10_000_000);
    let browser = open("long", &profile);
    for (width, highest) in [(420, 240), (1280, 110)] {
        browser.resize(width, 800);
        let high = browser.run("return document.querySelector('#rows tr').clientHeight").as_u64().expect("a height");
        assert!(high < highest, "{width}: {high}");
        let shown = "const seen = (part) => [...document.querySelectorAll(part)].every((one) => one.textContent === '' || one.getBoundingClientRect().width > 20);
            return [seen('#rows .own'), seen('#rows .kept'), document.documentElement.scrollWidth - document.documentElement.clientWidth]";
        assert_eq!(
            browser.run(shown),
            json!([true, true, 0]),
            "{width}: a method, a callee or a share is out of sight"
        );
        browser.run("page.showAround(page.graph.tree.method(2))");
        assert_eq!(
            browser
                .run("return document.getElementById('center').lastChild.getBoundingClientRect().right <= innerWidth"),
            true
        );
        browser.run("page.showAround(null)");
    }
}

#[test]
fn names_that_steer_text_or_run_from_right_to_left_reorder_nothing() {
    let mut profile = profile();
    profile.meta.application = "App\u{202e}gnp".into();
    profile.meta.notes = vec!["of \u{2067}evil".into()];
    let evil = frame(&mut profile, "Shop.\u{202e}Evil.Run()", "Evil\u{202d}.dll");
    let hebrew = frame(&mut profile, &format!("{HEBREW}.{HEBREW}()"), "Shop.dll");
    sample(&mut profile, (17, HEBREW), &[evil, hebrew], 30_000_000);
    sample(&mut profile, (18, "\u{202e}main"), &[evil], 10_000_000);
    let browser = open("bidi", &profile);
    times_are_read(&browser);
    let (x, y) = (300.0, 300.0);
    browser.point_at(x, y);
    browser.run("page.graph.select(2); page.showHovered(page.graph, 2, { clientX: 100, clientY: 100 })");
    // Everything but the data: texts, tooltips, labels.
    let steered = browser.run(
        "const found = []; const steers = /[\\u200e\\u200f\\u202a-\\u202e\\u2067\\u2068]/;
         for (const one of document.querySelectorAll('*')) {
             if (one.tagName === 'SCRIPT') continue;
             for (const { name, value } of one.attributes) if (steers.test(value)) found.push(name);
             for (const child of one.childNodes) if (child.nodeType === 3 && steers.test(child.data)) found.push(child.data);
         }
         if (page.graph.model.methods.some(({ forms }) => forms.some((form) => steers.test(form)))) found.push('a box');
         return found",
    );
    assert_eq!(steered, json!([]));
    // In what mixes a name with other text, the other text is to the right of the name.
    let ordered = browser.run(
        "const left = (node, at) => { const range = document.createRange(); range.setStart(node, at); range.setEnd(node, at + 1); return range.getBoundingClientRect().left; };
         const wrong = [];
         const letter = /[\\u0590-\\u05ff]/;
         const parts = (of) => { const all = []; const walk = document.createTreeWalker(of, NodeFilter.SHOW_TEXT); while (walk.nextNode()) all.push(walk.currentNode); return all; };
         let checked = 0;
         for (const one of document.querySelectorAll('#lanes li, #rows .short, #rows .where, #status .said, #tooltip p')) {
             const letters = parts(one).flatMap((node) => [...node.data].map((text, at) => ({ text, x: left(node, at) })).filter(({ text }) => /[^\\s\\u2066-\\u2069.]/.test(text)));
             const last = letters.findLastIndex(({ text }) => letter.test(text));
             if (last < 0) continue;
             checked++;
             const after = letters.slice(last + 1);
             if (after.some(({ x }) => x < letters[last].x)) wrong.push(one.textContent);
         }
         return [checked > 2, wrong]"
    );
    assert_eq!(ordered, json!([true, []]));
    let option = browser.text("return document.querySelector('#thread option:nth-child(2)').textContent");
    assert!(option.starts_with(&format!("\u{2066}{HEBREW}\u{2069} (17)")), "{option:?}");
    assert_eq!(browser.text(ROWS), format!("{HEBREW}.{HEBREW}(); \u{fffd}Evil.Run()"));
}

#[test]
fn a_peak_is_not_more_than_the_threads_that_there_are() {
    let mut profile =
        Profile::new(Meta { event: Event::Wall, frequency: 100, duration: 100_000_000, ..Meta::default() });
    let run = frame(&mut profile, "Shop.Program.Main()", "Shop.dll");
    for id in 0..30 {
        // More samples than fit into a part of the timeline.
        let first = sample(&mut profile, (id, "worker"), &[run], 10_000_000);
        (0..5).for_each(|_| profile.add_sample(first));
    }
    let browser = open("peak", &profile);
    times_are_read(&browser);
    let over = "return page.timeline.peakOf(page.timeline.lanes[0].load) > 30";
    assert_eq!(browser.run(over), true, "the test is about such a recording");
    assert_eq!(browser.text("return document.getElementById('peak').textContent"), "peak 30 threads");
}

#[test]
fn overloads_of_a_callee_are_one() {
    let mut profile = profile();
    let main = frame(&mut profile, "Shop.Program.Main(string[])", "Shop.dll");
    for (overload, weight) in [("object", 30_000_000), ("object, int", 20_000_000)] {
        let waits = frame(&mut profile, &format!("System.Threading.Monitor.Wait({overload})"), "System.Threading.dll");
        sample(&mut profile, (1, "main"), &[main, waits], weight);
    }
    let sleeps = frame(&mut profile, "System.Threading.Thread.Sleep(int)", "System.Threading.dll");
    sample(&mut profile, (1, "main"), &[main, sleeps], 50_000_000);
    let browser = open("overloads", &profile);
    let row = browser.text("return document.querySelector('#rows tr').textContent.replaceAll('\\u202f', ' ')");
    assert!(row.contains("calls Monitor.Wait 50.0 %calls Thread.Sleep 50.0 %"), "{row}");
    let title = browser.text("return document.querySelector('#rows .where:nth-of-type(n+2)[title]').title");
    assert!(title.contains("Wait(object, int)"), "{title}");
}

#[test]
fn the_graph_opens_at_the_application_below_many_frames_of_the_framework() {
    let mut profile = profile();
    let mut stack: Vec<FrameIx> = (0..40)
        .map(|level| frame(&mut profile, &format!("Microsoft.Host.Layer{level}.Run()"), "Microsoft.Host.dll"))
        .collect();
    stack.push(frame(&mut profile, "Shop.Orders.Handle()", "Shop.dll"));
    sample(&mut profile, (1, "main"), &stack, 10_000_000);
    let browser = open("host", &profile);
    for (width, height) in [(1280, 800), (420, 800)] {
        browser.resize(width, height);
        let sights = "const { graph } = page; const inSight = (depth) => graph.top(depth) >= 0 && graph.top(depth) + 20 <= graph.stage.clientHeight;
            const first = [inSight(41), inSight(0)];
            graph.stage.scrollTop = graph.stage.scrollHeight;
            graph.fromBottom = 0;
            return [...first, inSight(0), graph.zoomed]";
        browser.run("page.select(true)");
        assert_eq!(browser.run(sights), json!([true, false, true, 0]), "{width}");
    }
}
