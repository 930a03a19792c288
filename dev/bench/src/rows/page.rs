//! The page of a large recording in the browser: the time to the first view.

use super::snapshot_command::Folder;
use super::view;
use crate::Outcome;
use crate::bench::{Bench, PAGE_STACKS, VIEWS};
use crate::statistics::median;
use crate::table::Row;
use remora_profile::{ApplicationRule, Frame, FrameIx, Meta, Profile, Sample, State, Thread};
use serde_json::json;
use std::fs::File;
use std::io::BufWriter;

/// Seconds within which the first view must appear.
const BAR: f64 = 1.0;
/// Rows and methods of its stacks.
const DEPTH: u64 = 12;
const METHODS: u64 = 30_000;
/// Rows of the graph in which stacks share callers.
const SHARED: u64 = 3;

/// Measures views of one page in an open browser.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let folder = Folder::make()?;
    let file = folder.path("page.html");
    let profile = profile(bench.amount(PAGE_STACKS));
    remora_export::write_page(&profile, &ApplicationRule::default(), &[], &mut BufWriter::new(File::create(&file)?))?;
    let megabytes = std::fs::metadata(&file)?.len() as f64 / 1e6;
    let name = format!(
        "the page of a recording, {megabytes:.0} MB with {} stacks: to the first view",
        profile.samples().len()
    );
    let Some(browser) = view::browser() else {
        return Ok(vec![Row::shown(&name, "no Chromium here to draw it".to_owned())]);
    };
    let mut seconds = Vec::new();
    for _ in 0..bench.amount(VIEWS) {
        browser.go(&format!("file://{}", file.display()));
        view::wait_until_drawn(&browser)?;
        let milliseconds: f64 = browser.text("return document.documentElement.dataset.drawn").parse()?;
        seconds.push(milliseconds / 1e3);
    }
    let (middle, most) = (median(&seconds).unwrap_or(0.0), seconds.iter().copied().fold(0.0, f64::max));
    Ok(vec![
        Row::shown(&name, format!("drawn after {middle:.2} s in the median, {most:.2} s at the most"))
            .against("1 s or less", most <= BAR)
            .numbers(json!({ "drawn": seconds, "megabytes": megabytes })),
    ])
}

/// A recording with this many samples, each with a stack of its own.
fn profile(stacks: u64) -> Profile {
    let meta =
        Meta { application: "large".to_owned(), frequency: 100, duration: stacks * 1_000_000, ..Meta::default() };
    let mut profile = Profile::new(meta);
    let frames: Vec<FrameIx> = (0..METHODS).map(|method| frame(&mut profile, method)).collect();
    let threads: Vec<_> = (0..50).map(|id| profile.add_thread(Thread { id, name: format!("Worker {id}") })).collect();
    let mut random = fastrand::Rng::with_seed(1);
    for sample in 0..stacks {
        let thread = threads[random.usize(0..threads.len())];
        let mut stack = profile.stack(None, frames[random.usize(0..4)]);
        for row in 1..DEPTH {
            let methods = if row < SHARED { row * 20 } else { METHODS };
            stack = profile.stack(Some(stack), frames[random.u64(0..methods) as usize]);
        }
        profile.add_sample(Sample {
            time: sample * 1_000_000,
            thread,
            stack,
            weight: 10_000_000,
            state: State::Running,
        });
    }
    profile
}

fn frame(profile: &mut Profile, method: u64) -> FrameIx {
    let (product, class) = (method % 7, method / 20);
    let name = profile
        .string(&format!("Company.Product{product}.Area{}.Class{class}.Method{method}(int, string)", method % 31));
    let module = profile.string(&format!("Company.Product{product}.dll"));
    let path = profile.string(&format!("/src/product{product}/class{class}.cs"));
    let line = (method % 400) as u32 + 1;
    profile.frame(Frame { module: Some(module), file: Some(path), line: Some(line), ..Frame::unknown(name) })
}
