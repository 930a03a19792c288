//! A large snapshot in the browser: the time to build its index once, and the time to the first drawing with it.

use super::snapshot_command::Folder;
use crate::Outcome;
use crate::bench::{self, Bench, VIEW_OBJECTS, VIEWS};
use crate::graphs;
use crate::statistics::median;
use crate::table::Row;
use remora_browser::Browser;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Seconds within which the first drawing must appear.
const PICTURE_BAR: f64 = 2.0;
/// The page's requests before its first drawing.
const PICTURE: [&str; 2] = ["api/about", "api/map"];
/// Waits in the page until it is drawn.
const DRAWN: &str = "const root = document.documentElement;
    return new Promise((resolve) => { const look = () => root.dataset.drawn === '' ? requestAnimationFrame(look) : resolve(true); look(); })";

/// Measures both.
pub(super) fn measure(bench: &Bench, folder: &Folder) -> Outcome<Vec<Row>> {
    let objects = bench.amount(VIEW_OBJECTS);
    let file = folder.path("view.remora-heap");
    let references = graphs::write(objects, File::create(&file)?)?;
    let begun = Instant::now();
    drop(View::of(&file)?);
    let making = begun.elapsed().as_secs_f64();
    let index = std::fs::metadata(folder.path("view.remora-heap.index"))?.len();
    let (mut answered, mut drawn) = (Vec::new(), Vec::new());
    let browser = browser();
    for _ in 0..bench.amount(VIEWS) {
        answered.push(first_answers(&file)?);
        if let Some(browser) = &browser {
            drawn.push(first_view(browser, &file)?);
        }
    }
    let most = |seconds: &[f64]| seconds.iter().copied().fold(0.0, f64::max);
    let text = |seconds: &[f64]| {
        format!("{:.2} s in the median, {:.2} s at the most", median(seconds).unwrap_or(0.0), most(seconds))
    };
    let picture = if drawn.is_empty() {
        "no Chromium here to draw it".to_owned()
    } else {
        format!("drawn after {}", text(&drawn))
    };
    let (millions, edges) = (objects as f64 / 1e6, references as f64 / 1e6);
    Ok(vec![
        Row::shown(
            &format!("`heap view` of {millions:.1} million objects, {edges:.1} million references: to the first picture, with its index"),
            format!("asked and answered after {}; {picture}", text(&answered)),
        )
        .against("2 s or less", most(&answered).max(most(&drawn)) <= PICTURE_BAR)
        .numbers(json!({ "answered": answered, "drawn": drawn })),
        Row::shown(
            "making that index, once",
            format!("{making:.1} s from the command to the page; {:.0} bytes an object", index as f64 / objects as f64),
        )
        .numbers(json!({ "seconds": making, "bytes": index, "objects": objects })),
    ])
}

/// From the command's start until the data of the first drawing have arrived, seconds.
fn first_answers(file: &Path) -> Outcome<f64> {
    let begun = Instant::now();
    let view = View::of(file)?;
    for question in PICTURE {
        let answer = view.answer(question)?;
        if answer.get("error").is_some() {
            return Err(format!("{question}: {answer}").into());
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// From the command's start until the first drawing in an open browser, seconds.
fn first_view(browser: &Browser, file: &Path) -> Outcome<f64> {
    let begun = Instant::now();
    let view = View::of(file)?;
    browser.go(&view.address);
    wait_until_drawn(browser)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Waits for the first drawing of an open page.
pub(super) fn wait_until_drawn(browser: &Browser) -> Outcome<()> {
    if browser.run(DRAWN) == true { Ok(()) } else { Err("the page was not drawn".into()) }
}

/// A browser, if one is installed.
pub(super) fn browser() -> Option<Browser> {
    let there = Command::new("chromedriver").arg("--version").stdout(Stdio::null()).status();
    there.is_ok_and(|status| status.success()).then(Browser::start)
}

/// A running `remora heap view`.
struct View {
    child: Child,
    address: String,
}

impl View {
    /// Starts it, and waits for its address.
    fn of(file: &Path) -> Outcome<View> {
        let mut command = Command::new(bench::path(super::snapshot_command::COMMAND)?);
        command.args(["heap", "view"]).arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut view = View { child: command.spawn()?, address: String::new() };
        let mut line = String::new();
        BufReader::new(view.child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.split(' ').find(|word| word.starts_with("http://"));
        view.address = address.ok_or("remora heap view printed no address")?.to_owned();
        Ok(view)
    }

    fn answer(&self, question: &str) -> Outcome<Value> {
        let (host, secret) = self.address.trim_start_matches("http://").split_once('/').ok_or("no secret")?;
        let mut stream = TcpStream::connect(host)?;
        write!(stream, "GET /{secret}{question} HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let (_, body) = reply.split_once("\r\n\r\n").ok_or("no reply")?;
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // It has nothing to clean up; if killing fails, the next one fails.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
