//! A headless Chromium to click in, driven through chromedriver by plain WebDriver over HTTP: a handful of commands need no client library.
//!
//! The tests of this package need Chromium and fail without it: `apt-get install -y chromium chromium-driver`. So they are a package of
//! their own, which `cargo test` leaves out and `cargo xtask test` runs.
#![forbid(unsafe_code)]

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const HOW_TO_INSTALL: &str = "this test needs Chromium: apt-get install -y chromium chromium-driver";

/// Where chromedriver says on which port it listens.
const READY: &str = "started successfully on port ";

/// How long one command may take before the test fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One window of one browser; both end with it.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Where the browser itself listens for debuggers, and serves its DevTools.
    debugger: String,
}

impl Browser {
    /// Opens `page` in a window of 1400 by 900 pixels, without motion.
    pub fn open(page: &std::path::Path) -> Browser {
        let browser = Browser::start();
        browser.go(&format!("file://{}", page.display()));
        browser.is_painted();
        browser
    }

    /// Opens a page of the browser's own DevTools.
    pub fn open_devtools(page: &str) -> Browser {
        let browser = Browser::start();
        browser.go(&format!("http://{}/devtools/{page}", browser.debugger));
        browser
    }

    /// Opens what a server answers at `url`.
    pub fn open_url(url: &str) -> Browser {
        let browser = Browser::start();
        browser.go(url);
        browser.is_painted();
        browser
    }

    /// Opens a browser with an empty page.
    pub fn start() -> Browser {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("chromedriver does not start ({error}); {HOW_TO_INSTALL}"));
        let said = BufReader::new(driver.stdout.take().expect("it is piped"));
        let port = said.lines().map_while(Result::ok).find_map(|line| port_in(&line));
        let port = port.unwrap_or_else(|| panic!("chromedriver ended before it listened; {HOW_TO_INSTALL}"));
        let mut browser = Browser { driver, port, session: String::new(), debugger: String::new() };
        browser.begin();
        browser
    }

    /// Goes there with the window that is open.
    pub fn go(&self, url: &str) {
        let answer = self.post("url", &json!({ "url": url }));
        assert!(answer.is_null(), "{url}: {answer}");
    }

    /// Waits until the page that was loaded stands in the window: until then Chromium throws keys and clicks away.
    /// (On a loaded machine one search in some ten was never typed, though the driver said that it was.)
    fn is_painted(&self) {
        self.run(
            "return new Promise((painted) => new PerformanceObserver((seen, observer) => {
                 if (!seen.getEntriesByName('first-contentful-paint').length) return;
                 observer.disconnect();
                 painted(true);
             }).observe({ type: 'paint', buffered: true }))",
        );
    }

    fn begin(&mut self) {
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--force-prefers-reduced-motion",
            "--window-size=1400,900",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = self.request("POST", "/session", Some(&wanted));
        let session = answer["sessionId"].as_str();
        self.session = session.unwrap_or_else(|| panic!("no session: {answer}; {HOW_TO_INSTALL}")).to_owned();
        let debugger = answer["capabilities"]["goog:chromeOptions"]["debuggerAddress"].as_str();
        self.debugger = debugger.unwrap_or_default().to_owned();
    }

    /// Runs `script` in the page and gives what it returns.
    pub fn run(&self, script: &str) -> Value {
        let answer = self.post("execute/sync", &json!({ "script": script, "args": [] }));
        assert!(answer.get("error").is_none(), "{script}: {answer}");
        answer
    }

    /// The text that `script` returns.
    pub fn text(&self, script: &str) -> String {
        self.run(script).as_str().unwrap_or_else(|| panic!("no text: {script}")).to_owned()
    }

    /// A click of the mouse at a place in the window.
    pub fn click_at(&self, x: f64, y: f64) {
        self.mouse(&json!([
            { "type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64 },
            { "type": "pointerDown", "button": 0 },
            { "type": "pointerUp", "button": 0 },
        ]));
    }

    /// Moves the mouse to a place in the window.
    pub fn point_at(&self, x: f64, y: f64) {
        self.mouse(&json!([{ "type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64 }]));
    }

    /// Presses, moves and releases `pointer` (`mouse` or `touch`) between two places in the window.
    pub fn drag(&self, pointer: &str, (x, y): (f64, f64), (to_x, to_y): (f64, f64)) {
        let step = |x: f64, y: f64| json!({ "type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64 });
        let actions = json!([
            step(x, y),
            { "type": "pointerDown", "button": 0 },
            step((x + to_x) / 2.0, (y + to_y) / 2.0),
            step(to_x, to_y),
            { "type": "pointerUp", "button": 0 },
        ]);
        self.pointer(pointer, &actions);
    }

    /// A tap with a finger.
    pub fn tap_at(&self, x: f64, y: f64) {
        let (x, y) = (x.round() as i64, y.round() as i64);
        self.pointer(
            "touch",
            &json!([
                { "type": "pointerMove", "duration": 0, "x": x, "y": y },
                { "type": "pointerDown", "button": 0 },
                { "type": "pointerUp", "button": 0 },
            ]),
        );
    }

    /// Prefers a `light` or a `dark` page from now on.
    pub fn prefer(&self, scheme: &str) {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        let answer = self.post("goog/cdp/execute", &json!({ "cmd": "Emulation.setEmulatedMedia", "params": media }));
        assert!(answer.get("error").is_none(), "{answer}");
    }

    /// Texts in sight whose contrast to what is behind them is below 4.5, with it. Those of controls that are disabled do not count.
    pub fn faint_texts(&self) -> Value {
        self.run(include_str!("contrast.js"))
    }

    /// Makes the page as wide and as high as a window of that size would.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        let answer = self.post("goog/cdp/execute", &command);
        assert!(answer.get("error").is_none(), "{answer}");
        self.run(
            "return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))",
        );
    }

    fn mouse(&self, actions: &Value) {
        self.pointer("mouse", actions);
    }

    fn pointer(&self, kind: &str, actions: &Value) {
        let pointer =
            json!({ "type": "pointer", "id": kind, "parameters": { "pointerType": kind }, "actions": actions });
        let answer = self.post("actions", &json!({ "actions": [pointer] }));
        assert!(answer.is_null(), "{actions}: {answer}");
    }

    /// A click in the middle of what `selector` finds first.
    pub fn click(&self, selector: &str) {
        let element = self.post("element", &json!({ "using": "css selector", "value": selector }));
        let id = element.as_object().and_then(|element| element.values().next()).and_then(Value::as_str);
        let id = id.unwrap_or_else(|| panic!("nothing is {selector}: {element}"));
        let answer = self.post(&format!("element/{id}/click"), &json!({}));
        assert!(answer.is_null(), "{selector}: {answer}");
    }

    /// Presses and releases keys where the focus is; `\u{E0..}` are WebDriver's names of special keys.
    pub fn keys(&self, keys: &str) {
        let both = |key: char| [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })];
        let actions: Vec<Value> = keys.chars().flat_map(both).collect();
        let answer = self.post("actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
        assert!(answer.is_null(), "{keys}: {answer}");
    }

    /// Everything that the browser complained about: errors, warnings, violations of the page's policy.
    pub fn complaints(&self) -> Vec<Value> {
        self.post("se/log", &json!({ "type": "browser" })).as_array().cloned().unwrap_or_default()
    }

    fn post(&self, command: &str, body: &Value) -> Value {
        self.request("POST", &format!("/session/{}/{command}", self.session), Some(body))
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.exchange(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{body}")?;
        let mut json: Value = serde_json::from_slice(&body_of(BufReader::new(stream))?)?;
        Ok(json["value"].take())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The test may be failing already because the driver does not answer; then ending it is all that can be done.
        let ended = self.exchange("DELETE", &format!("/session/{}", self.session), None);
        let gone = self.driver.kill().and_then(|()| self.driver.wait());
        assert!(std::thread::panicking() || (ended.is_ok() && gone.is_ok()), "{ended:?}, {gone:?}");
    }
}

fn port_in(line: &str) -> Option<u16> {
    line.split_once(READY)?.1.trim_end_matches('.').parse().ok()
}

/// The body of an HTTP answer; chromedriver keeps the connection open, so its length decides.
fn body_of(mut stream: impl BufRead) -> io::Result<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}
