//! The page in a real browser: opened from a file, clicked with a mouse, typed into.
//! Fails where Chromium or chromedriver is missing: `apt-get install -y chromium chromium-driver`.

#[path = "../../../crates/host/export/tests/support/mod.rs"]
mod support;

use remora_browser::Browser;
use remora_export::Format;
use remora_profile::Profile;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const ENTER: &str = "\u{E007}";
const BACKSPACE: &str = "\u{E003}";
const ESCAPE: &str = "\u{E00C}";
const ARROW_UP: &str = "\u{E013}";
const ARROW_DOWN: &str = "\u{E015}";

const FOUND: &str = "return document.getElementById('found').textContent.replaceAll('\\u202f', ' ')";
const STATUS: &str = "return document.getElementById('status').textContent.replaceAll('\\u202f', ' ')";
const PATH: &str = "return [...document.querySelectorAll('#path li')].map((crumb) => crumb.textContent).join(' > ')";
const ROWS: &str = "return [...document.querySelectorAll('#rows .short')].map((name) => name.textContent).join('; ')";
/// The names in each row of the graph, from the root on and from left to right, with their share of its width.
const GRAPH: &str = "const { boxes, model, tree } = page.graph; const rows = [];
    const places = [...boxes.id.keys()].sort((one, other) => boxes.x[one] - boxes.x[other]);
    for (const at of places) (rows[boxes.depth[at]] ??= []).push(
        `${boxes.id[at] === 0 ? 'All' : model.methods[tree.method(boxes.id[at])].call} ${Math.round(100 * boxes.width[at] / boxes.right)}`);
    return rows.map((row) => row.join(', ')).join(' | ')";

/// `name` makes the file's name.
fn open(name: &str, profile: &Profile) -> Browser {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    let mut out = BufWriter::new(File::create(&path).expect("a file to write"));
    remora_export::write(profile, Format::Html, &mut out).and_then(|()| out.flush()).expect("written");
    Browser::open(&path)
}

/// The middle of the box of a method in the window.
fn place(browser: &Browser, name: &str) -> (f64, f64) {
    let found = browser.run(&format!(
        "const {{ boxes, model, tree, stage }} = page.graph;
         const box = boxes.id.findIndex((id) => id > 0 && model.methods[tree.method(id)].name.startsWith('{name}'));
         const at = stage.getBoundingClientRect();
         return [at.left + boxes.x[box] + boxes.width[box] / 2, at.top + page.graph.top(boxes.depth[box]) + 10]"
    ));
    let [x, y] = [0, 1].map(|at| found[at].as_f64().unwrap_or_else(|| panic!("no box of {name}")));
    (x, y)
}

fn click_box(browser: &Browser, name: &str) {
    let (x, y) = place(browser, name);
    browser.click_at(x, y);
}

#[test]
fn a_click_zooms_and_crumbs_back_and_keys_lead_out() {
    let browser = open("zoom", &support::small());
    assert_eq!(
        browser.text(GRAPH),
        "All 100 | [truncated] 66, Program.Main 32, </script><script>alert 2 | \
         pthread_cond_wait 66, Orders.Price<T> 29, libclrjit.so+0x1234 3, [unknown] 2 | string.Concat 20, Orders.Price<T> 7"
    );
    click_box(&browser, "Shop.Orders.Price");
    assert_eq!(browser.text(PATH), "All > Program.Main > Orders.Price<T>");
    assert_eq!(
        browser.text(GRAPH),
        "All 100 | Program.Main 100 | Orders.Price<T> 100 | string.Concat 69, Orders.Price<T> 23"
    );
    browser.click("#path li:nth-child(2) button");
    assert_eq!(browser.text(PATH), "All > Program.Main");
    browser.click("#back");
    assert_eq!(browser.text(PATH), "All > Program.Main > Orders.Price<T>");
    browser.click("#reset");
    assert_eq!(browser.text(PATH), "All");
    browser.keys(BACKSPACE);
    assert_eq!(browser.text(PATH), "All > Program.Main > Orders.Price<T>");
    browser.keys(ESCAPE);
    assert_eq!(browser.text(PATH), "All");
}

#[test]
fn arrows_walk_enter_zooms_and_the_status_is_read_out() {
    let browser = open("keyboard", &support::small());
    browser.run("document.getElementById('stage').focus()");
    browser.keys(ARROW_UP);
    assert!(browser.text(STATUS).starts_with("[truncated]Kind Unknown and marks"));
    browser.keys("\u{E014}");
    let said = browser.text(STATUS);
    assert_eq!(
        said,
        "Shop.Program.Main(string[])Kind ApplicationModule Shop.dllSource src/Program.cs:10Self 0 · 0 %Total 97.5 ms · 32.2 %Samples 5"
    );
    browser.keys(ARROW_UP);
    assert!(
        browser.text(STATUS).contains("Source src/Orders.cs, line 42 (68.6 %), 47 (31.4 %)"),
        "{}",
        browser.text(STATUS)
    );
    browser.keys(ENTER);
    assert_eq!(browser.text(PATH), "All > Program.Main > Orders.Price<T>");
    browser.keys(ARROW_DOWN);
    assert!(browser.text(STATUS).starts_with("Shop.Program.Main"));
}

#[test]
fn a_search_highlights_and_says_what_share_of_the_weight_matches() {
    let browser = open("search", &support::small());
    browser.keys("/");
    browser.keys("ORDERS.price");
    // 80 of 97.5 ms of the main thread, and 300 ns of the other; recursion counts once.
    assert_eq!(browser.text(FOUND), "28.9 % · 87.5 ms in 1 method");
    assert_eq!(browser.text(ROWS), "Orders.Price<T>(int)");
    assert_eq!(browser.run("return page.graph.matches.reduce((sum, match) => sum + match, 0)"), 1);
    browser.keys(ESCAPE);
    assert_eq!(browser.text(FOUND), "");
    browser.keys("/");
    browser.keys("/lib(c|clrjit)\\.so/");
    assert_eq!(browser.text(FOUND), "69.4 % · 210 ms in 2 methods");
    browser.keys(ESCAPE);
    browser.keys("/");
    browser.keys("/(/");
    assert!(browser.text(FOUND).contains("Invalid regular expression"), "{}", browser.text(FOUND));
}

#[test]
fn threads_and_states_narrow_everything() {
    let browser = open("threads", &support::small());
    let choose = |option: usize| {
        browser.click(&format!("#thread option:nth-child({option})"));
    };
    // The busiest thread stands first; the thread without samples is not there.
    assert_eq!(browser.run("return document.querySelectorAll('#thread option').length"), 3);
    choose(3);
    assert!(browser.text(GRAPH).starts_with("All 100 | Program.Main 100 | Orders.Price<T> 90, libclrjit.so+0x1234 10"));
    assert_eq!(
        browser.text(ROWS),
        "string.Concat(string, string); Orders.Price<T>(int); libclrjit.so+0x1234; Program.Main(string[])"
    );
    browser.click("#states label:nth-child(3)");
    assert_eq!(browser.text(GRAPH), "All 100 | Program.Main 100 | Orders.Price<T> 100");
    choose(1);
    assert_eq!(
        browser.text(GRAPH),
        "All 100 | [truncated] 96, Program.Main 4 | pthread_cond_wait 96, Orders.Price<T> 4"
    );
    browser.click("#states label:nth-child(2)");
    assert!(!browser.text(ROWS).contains("pthread_cond_wait"));
}

#[test]
fn callers_merge_by_leaf_and_flip_turns_the_graph() {
    let browser = open("callers", &support::small());
    let root_top = || browser.run("return page.graph.top(0) < page.graph.top(1)");
    assert_eq!(root_top(), false, "flames grow upwards");
    browser.click(".choice label:nth-child(2)");
    assert_eq!(root_top(), true, "callers hang down");
    assert_eq!(
        browser.text(GRAPH),
        "All 100 | pthread_cond_wait 66, string.Concat 20, Orders.Price<T> 9, libclrjit.so+0x1234 3, [unknown] 2 | \
         [truncated] 66, Orders.Price<T> 20, Orders.Price<T> 7, Program.Main 2, Program.Main 3, </script><script>alert 2 | \
         Program.Main 20, Program.Main 7"
    );
    let (x, y) = place(&browser, "Shop.Program.Main");
    browser.point_at(x, y);
    let tip = browser.text("return document.getElementById('tooltip').textContent");
    assert!(
        tip.contains("Shop.Program.Main(string[])")
            && tip.contains("Module")
            && tip.contains("own time of libclrjit.so+0x1234"),
        "{tip}"
    );
    browser.click(".flip");
    assert_eq!(root_top(), false);
}

#[test]
fn the_table_sorts_and_a_row_searches() {
    let browser = open("table", &support::small());
    assert!(browser.text(ROWS).starts_with("pthread_cond_wait; string.Concat(string, string); Orders.Price<T>(int)"));
    browser.click("th button[data-by=total]");
    assert!(
        browser.text(ROWS).starts_with("pthread_cond_wait; [truncated]; Program.Main(string[]); Orders.Price<T>(int)")
    );
    browser.click("th button[data-by=total]");
    assert!(browser.text(ROWS).ends_with("pthread_cond_wait"));
    browser.click("th button[data-by=name]");
    assert_eq!(browser.text("return document.querySelector('th[aria-sort=ascending]').textContent"), "Method");
    assert!(browser.text(ROWS).starts_with("[truncated]; [unknown]"));
    browser.click("#rows tr:nth-child(1) .method");
    assert_eq!(browser.text("return document.getElementById('search').value"), "[truncated]");
    assert_eq!(browser.text(FOUND), "66.1 % · 200 ms in 1 method");
    assert_eq!(browser.run("return document.querySelectorAll('#rows tr').length"), 8, "the others stay in sight");
}

#[test]
fn names_from_the_target_are_only_ever_text_and_nothing_is_fetched() {
    let browser = open("hostile", &support::small());
    click_box(&browser, "</script>");
    browser.click(".choice label:nth-child(2)");
    browser.click("#rows tr:last-child .method");
    assert_eq!(browser.run("return document.scripts.length"), 2);
    assert!(browser.text("return document.getElementById('notes').textContent").contains("</script><script>alert(1)"));
    assert!(browser.text("return document.getElementById('thread').textContent").contains("</script><script>alert(1)"));
    assert!(browser.text(ROWS).contains("</script><script>alert(1)</script>"));
    assert_eq!(
        browser.run(
            "return performance.getEntriesByType('resource').filter((entry) => !entry.name.startsWith('data:')).length"
        ),
        0
    );
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn loss_and_notes_are_in_sight() {
    let browser = open("account", &support::small());
    let account = browser.text("return document.getElementById('account').textContent");
    assert_eq!(
        account,
        "14 taken = 9 delivered + 4 ring-full (the ring in the target was full) + 1 thread-silent (the thread did not answer)\
         Stacks: 2 truncated · 1 broken · 4 incomplete · 3 repaired · 1 repeated · 7 stray signals"
    );
    assert!(
        browser
            .text("return document.getElementById('tiles').textContent")
            .replace('\u{202f}', " ")
            .contains("Lost35.7 %5 samples")
    );
}

#[test]
fn a_profile_without_samples_opens_too() {
    let browser = open("empty", &Profile::default());
    assert_eq!(browser.text(GRAPH), "All 100");
    assert_eq!(browser.run("return document.getElementById('empty').hidden"), false);
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn two_hundred_thousand_nodes_open_zoom_and_turn() {
    let browser = open("large", &support::synthetic(300_000, 200_000, 16));
    assert_eq!(browser.run("return page.model.about.application"), "Contoso.Shop.Web");
    click_box(&browser, "Contoso.Shop.Identity.TokenValidator.Handle");
    assert!(browser.text(PATH).ends_with("TokenValidator.Handle"), "{}", browser.text(PATH));
    browser.click(".choice label:nth-child(2)");
    browser.keys("/");
    browser.keys("json");
    assert!(browser.text(FOUND).contains("in 14 methods"), "{}", browser.text(FOUND));
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}
