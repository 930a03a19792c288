//! The page in a real browser: opened from a file, clicked with a mouse, typed into.
//! Fails where Chromium or chromedriver is missing: `apt-get install -y chromium chromium-driver`.

#[path = "../../../crates/host/export/tests/support/mod.rs"]
mod support;

mod opened;

use opened::{ROWS, open};
use remora_browser::Browser;
use remora_profile::{ApplicationRule, ApplicationTime, Frame, FrameKind, Meta, Profile, Sample, State, Thread};

const ENTER: &str = "\u{E007}";
const BACKSPACE: &str = "\u{E003}";
const ESCAPE: &str = "\u{E00C}";
const ARROW_UP: &str = "\u{E013}";
const ARROW_DOWN: &str = "\u{E015}";
const ARROW_RIGHT: &str = "\u{E014}";

const FOUND: &str = "return document.getElementById('found').textContent.replaceAll('\\u202f', ' ')";
const STATUS: &str = "return document.getElementById('status').textContent.replaceAll('\\u202f', ' ')";
const PATH: &str = "return [...document.querySelectorAll('#path li')].map((crumb) => crumb.textContent).join(' > ')";
/// The names in each row of the graph, from the root on and from left to right, with their share of its width.
const GRAPH: &str = "const { boxes, model, tree } = page.graph; const rows = [];
    const places = [...boxes.id.keys()].sort((one, other) => boxes.x[one] - boxes.x[other]);
    for (const at of places) (rows[boxes.depth[at]] ??= []).push(
        `${boxes.id[at] === 0 ? 'All' : model.methods[tree.method(boxes.id[at])].call} ${Math.round(100 * boxes.width[at] / boxes.right)}`);
    return rows.map((row) => row.join(', ')).join(' | ')";

/// The same, with the idle threads and the table of all methods.
fn open_all(name: &str, profile: &Profile) -> Browser {
    let browser = open(name, profile);
    browser.run("if (!document.getElementById('idle-switch').hidden) document.getElementById('idle').click()");
    browser.click("#tab-methods");
    browser
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
    let browser = open_all("zoom", &support::small());
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
    let browser = open_all("keyboard", &support::small());
    browser.run("page.graph.stage.focus()");
    browser.keys(ARROW_UP);
    assert!(browser.text(STATUS).starts_with("[truncated]Kind Unknown and marks"));
    browser.keys(ARROW_RIGHT);
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
    let browser = open_all("search", &support::small());
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
    let browser = open_all("threads", &support::small());
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
    let browser = open_all("callers", &support::small());
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
    browser.click("#flip-switch");
    assert_eq!(root_top(), false);
}

#[test]
fn the_table_sorts_and_a_row_searches() {
    let browser = open_all("table", &support::small());
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
    let browser = open_all("hostile", &support::small());
    click_box(&browser, "</script>");
    browser.click(".choice label:nth-child(2)");
    browser.click("#rows tr:last-child .method");
    assert_eq!(browser.run("return document.scripts.length"), 3);
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
    let browser = open_all("account", &support::small());
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
    let browser = open_all("empty", &Profile::default());
    assert_eq!(browser.text(GRAPH), "All 100");
    assert_eq!(browser.run("return document.getElementById('empty').hidden"), false);
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn two_hundred_thousand_nodes_open_zoom_and_turn() {
    let browser = open_all("large", &support::synthetic(300_000, 200_000, 16));
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

/// Text of an element, with plain spaces.
fn text_of(browser: &Browser, id: &str) -> String {
    browser.text(&format!("return document.getElementById('{id}').textContent.replaceAll('\\u202f', ' ')"))
}

/// Rows of the table: cells by `|`, lines of a cell by spaces.
fn table(browser: &Browser) -> Vec<String> {
    let rows = browser.run(
        "const text = (cell) => [...cell.querySelectorAll('.short, .where, .part, .time')].map((part) => part.textContent).join(' ') || cell.textContent;
         return [...document.querySelectorAll('#rows tr')].map((row) => [...row.children].map(text).join(' | ').replaceAll('\\u202f', ' '))",
    );
    rows.as_array().expect("rows").iter().map(|row| row.as_str().expect("a text").to_owned()).collect()
}

/// Waits until the page has read when samples were taken.
fn times_are_read(browser: &Browser) {
    browser.run(
        "return new Promise((read) => { const look = () => (page.times === null ? setTimeout(look, 5) : read(true)); look(); })",
    );
}

#[test]
fn the_first_table_is_the_time_by_application_method() {
    let profile = support::small();
    let browser = open("application", &profile);
    assert_eq!(text_of(&browser, "table-title"), "Time by application method");
    assert_eq!(text_of(&browser, "rule"), "application: all assemblies but System.* and Microsoft.*");
    assert_eq!(
        table(&browser),
        [
            "Orders.Price<T>(int) Orders.cs:42 · Shop · Shop.dll calls string.Concat 58.5 % in Orders.cs:42 78.0 % in Orders.cs:47 7.3 % | 26.8 % 27.5 ms | 85.4 % 87.5 ms",
            "Program.Main(string[]) Program.cs:10 · Shop · Shop.dll calls libclrjit.so+0x1234 9.8 % | 0 % 0 | 9.8 % 10.0 ms",
            "</script><script>alert(1)</script>;&\"'\u{fffd}\u{fffd}`${x}` {{title}} a;b.cs:1 · </script>.dll calls [unknown] 4.9 % | 0 % 0 | 4.9 % 5.00 ms",
        ]
    );
    let time = ApplicationTime::of(&profile, &ApplicationRule::default(), None);
    let weights =
        browser.run("return page.selection.application.methods.map(({ total }) => total).sort((a, b) => b - a)");
    assert_eq!(weights, serde_json::json!(time.methods.iter().map(|method| method.weight()).collect::<Vec<_>>()));
    browser.click("#tab-entries");
    let entries = table(&browser);
    assert_eq!(entries[0], "Program.Main(string[]) Shop · Shop.dll | thread | 95.1 % 97.5 ms");
    assert_eq!(entries.len(), time.entry_points.len());
    browser.keys(ARROW_RIGHT);
    assert_eq!(text_of(&browser, "table-title"), "Time by method", "arrows walk along the tabs");
}

#[test]
fn a_row_marks_its_method_in_the_graph_and_selects_where_it_is_widest() {
    let browser = open("mark", &support::small());
    click_box(&browser, "</script>");
    browser.click("#rows tr:nth-child(1) .method");
    assert_eq!(browser.text(PATH), "All", "the method is not only in what was zoomed into");
    assert!(browser.text(STATUS).starts_with("Shop.Orders.Price<T>(int)"), "{}", browser.text(STATUS));
    assert_eq!(browser.run("return page.graph.matches.reduce((sum, match) => sum + match, 0)"), 1);
    assert_eq!(
        browser.text("return document.querySelector('#rows .chosen .short').textContent"),
        "Orders.Price<T>(int)"
    );
    browser.click("#rows tr:nth-child(1) .method");
    assert_eq!(browser.run("return page.graph.matches"), serde_json::Value::Null, "a second click ends it");
}

#[test]
fn blocked_time_has_its_wait_and_idle_threads_are_one_row_that_is_hidden_at_first() {
    let browser = open("idle", &support::small());
    assert!(browser.text(GRAPH).starts_with("All 100 | Program.Main 95, </script><script>alert 5 | "));
    assert_eq!(text_of(&browser, "idle-label"), "Idle: 1 thread, 200 ms");
    browser.click("#tab-waits");
    assert_eq!(table(&browser), ["Orders.Price<T>(int) Orders.cs:47 · Shop · Shop.dll | runtime | 1 | 7.3 % 7.50 ms"]);
    browser.click("#idle-switch");
    assert_eq!(table(&browser)[1], "Idle threads | idle | 1 | 66.1 % 200 ms");
    browser.keys("/");
    browser.keys("nosuch");
    assert_eq!((table(&browser).len(), text_of(&browser, "none")), (0, "No method matches.".to_owned()));
    browser.keys(ESCAPE);
    assert!(browser.text(GRAPH).starts_with("All 100 | [truncated] 66, Program.Main 32"));
    browser.click("#idle-switch");
    assert_eq!(table(&browser).len(), 1);
    // Two threads that only wait are one choice of threads.
    let mut profile = support::small();
    let idle = *profile.samples().iter().find(|sample| sample.state == State::Blocked).expect("one waits");
    for id in [5000, 5001] {
        let thread = profile.add_thread(Thread { id, name: "Waiter".into() });
        profile.add_sample(Sample { thread, ..idle });
    }
    let browser = open("waiters", &profile);
    assert!(!text_of(&browser, "thread").contains("idle"));
    browser.click("#idle-switch");
    assert!(text_of(&browser, "thread").ends_with("2 idle threads"), "{}", text_of(&browser, "thread"));
    assert_eq!(browser.text("return document.querySelector('#lanes li:last-child').textContent"), "2 idle");
    browser.click("#thread option:last-child");
    assert_eq!(browser.text(GRAPH), "All 100 | [truncated] 100 | pthread_cond_wait 100");
}

#[test]
fn a_range_of_time_narrows_the_graph_and_the_tables_until_it_is_cleared() {
    let browser = open("range", &support::small());
    times_are_read(&browser);
    assert_eq!(text_of(&browser, "range"), "2.00 s; drag to choose a part");
    let whole = browser.text(GRAPH);
    let later = "All 100 | Program.Main 100 | libclrjit.so+0x1234 57, Orders.Price<T> 43";
    let check = |how: &str, range: &str| {
        assert_eq!(text_of(&browser, "range"), range, "{how}");
        assert_eq!(browser.text(GRAPH), later, "{how}");
        assert!(table(&browser)[0].ends_with("57.1 % 10.0 ms"), "{how}: {:?}", table(&browser));
        browser.click("#all-time");
        assert_eq!(browser.text(GRAPH), whole, "{how}");
    };
    let place = |slot: f64| {
        let at = browser.run("const { left, top, width } = document.getElementById('span').getBoundingClientRect(); return [left, top, width]");
        let [left, top, width] = [0, 1, 2].map(|index| at[index].as_f64().expect("a number"));
        (left + width * (slot + 0.5) / 50.0, top + 20.0)
    };
    browser.drag("mouse", place(1.0), place(4.0));
    check("mouse, to the right", "40.0 ms – 200 ms of 2.00 s");
    browser.drag("mouse", place(4.0), place(1.0));
    check("mouse, to the left", "40.0 ms – 200 ms of 2.00 s");
    browser.drag("touch", place(1.0), place(9.0));
    check("touch", "40.0 ms – 400 ms of 2.00 s");
    // The focus is on the timeline.
    browser.keys(ARROW_RIGHT);
    browser.keys(ARROW_RIGHT);
    check("keys", "40.0 ms – 120 ms of 2.00 s");
    browser.keys(ARROW_RIGHT);
    browser.keys(ESCAPE);
    assert_eq!(browser.text(GRAPH), whole);
    assert_eq!(browser.run("return document.getElementById('all-time').hidden"), true);
    let (x, y) = place(30.0);
    browser.click_at(x, y);
    assert_eq!(browser.run("return document.getElementById('empty').hidden"), false, "nothing was sampled there");
}

#[test]
fn slots_of_the_timeline_add_up_to_the_whole() {
    let browser = open("slots", &support::synthetic(30_000, 3_000, 9));
    times_are_read(&browser);
    let sums = browser.run(
        "const { count } = page.model.slots; const sum = (column) => column.reduce((one, other) => one + other, 0);
         let [weight, samples] = [0, 0];
         for (let slot = 0; slot < count; slot++) {
             const part = page.times.within({ from: slot, to: slot + 1 });
             weight += sum(part.weight);
             samples += sum(part.samples);
         }
         return [count, Math.round(weight) - sum(page.model.values.weight), samples - sum(page.model.values.samples)]",
    );
    assert_eq!(sums, serde_json::json!([240, 0, 0]));
    assert_eq!(browser.run("return document.querySelectorAll('#lanes li').length"), 7);
    assert_eq!(browser.text("return document.querySelector('#lanes li:last-child').textContent"), "4 others");
    browser.click("#lanes li:nth-child(2) button");
    assert_eq!(browser.run("return document.getElementById('thread').selectedIndex"), 1, "a name chooses its thread");
}

#[test]
fn callers_and_callees_of_one_method_meet_and_there_is_a_way_back() {
    const SIDES: &str = "const side = ({ boxes, model, tree }) => [...boxes.id.keys()].filter((at) => boxes.depth[at] < 2)
            .map((at) => `${model.methods[tree.method(boxes.id[at])].call} ${Math.round(100 * boxes.width[at] / boxes.right)}`).join(', ');
        return `${side(page.sandwich.callers)} | ${side(page.sandwich.callees)}`";
    let browser = open("sandwich", &support::small());
    let shown =
        || browser.run("return [document.getElementById('flame').hidden, document.getElementById('sandwich').hidden]");
    browser.click("#rows tr:nth-child(1) .around");
    assert_eq!(shown(), serde_json::json!([true, false]));
    assert_eq!(text_of(&browser, "center"), "Orders.Price<T> total 87.5 ms · 85.4 %, self 26.8 %");
    // Recursion counts once; the second caller is too narrow to be drawn.
    assert_eq!(
        browser.text(SIDES),
        "Orders.Price<T> 100, Program.Main 100 | Orders.Price<T> 100, string.Concat 69, Orders.Price<T> 23"
    );
    assert!(
        browser.text(STATUS).contains("Source src/Orders.cs, line 42 (68.6 %), 47 (31.4 %)"),
        "{}",
        browser.text(STATUS)
    );
    browser.click("#leave");
    assert_eq!(shown(), serde_json::json!([false, true]));
    click_box(&browser, "string.Concat");
    browser.click("#around");
    assert_eq!(browser.text(SIDES), "string.Concat 100, Orders.Price<T> 100 | string.Concat 100");
    browser.keys(ESCAPE);
    assert_eq!(shown(), serde_json::json!([false, true]));
    assert!(browser.text(PATH).ends_with("string.Concat"), "as it was left: {}", browser.text(PATH));
    browser.click("#around");
    browser.keys(BACKSPACE);
    assert_eq!(shown(), serde_json::json!([false, true]));
}

#[test]
fn a_zoom_scrolls_to_its_frame_and_labels_stay_inside_of_their_boxes() {
    let browser = open("deep", &deep(90));
    let in_sight = "const { graph } = page; const top = graph.top(graph.zoomedDepth);
        return graph.zoomedDepth > 80 && top >= 0 && top + 20 <= graph.stage.clientHeight";
    browser.run("page.graph.zoom(page.graph.tree.totals.length - 5)");
    assert_eq!(browser.run(in_sight), true, "{}", browser.text(PATH));
    browser.click("label[title^=Turn]");
    assert_eq!(browser.run(in_sight), true, "upside down");
    browser.run("page.graph.stage.scrollTop = 0; document.querySelector('#reset').click(); document.querySelector('#back').click()");
    assert_eq!(browser.run(in_sight), true, "on the way back");
    let root_in_sight = "const { callers } = page.sandwich; const bottom = callers.top(0) + 20;
        return callers.boxes.rows > 40 && bottom > 20 && bottom <= callers.stage.clientHeight";
    browser.run("page.showAround(page.graph.tree.method(60))");
    for height in [900, 640, 1000] {
        browser.resize(1280, height);
        assert_eq!(browser.run(root_in_sight), true, "callers stand on their method, {height}");
    }
    // A name whose first letters are wider than the others.
    let over = browser.run(
        "const { painter } = page.graph; const over = [];
         for (const text of ['WWWWWWWWWWWWiiiiiiiiiiiiiiiiiiiiiiiiii', 'MMMMMMiiiiiiiiiiii', 'plain'])
             for (let room = 0; room < 300; room++) if (painter.pen.measureText(painter.cut(text, room)).width > room) over.push([text, room]);
         return over",
    );
    assert_eq!(over, serde_json::json!([]));
    assert!(text_of(&browser, "legend").starts_with("Self time:"), "the legend says which time it shows");
}

/// One sample on one stack of `depth` methods.
fn deep(depth: u32) -> Profile {
    let mut profile = Profile::new(Meta { frequency: 100, duration: 10_000_000, ..Meta::default() });
    add_samples(&mut profile, 1, depth, 1);
    profile
}

/// Adds `threads` threads with a sample each, on stacks of `depth` methods, which are others for each thread if `distinct` is that many.
fn add_samples(profile: &mut Profile, threads: u32, depth: u32, distinct: u32) {
    for index in 0..threads {
        let thread =
            profile.add_thread(Thread { id: 1000 + index, name: format!(".NET TP Worker with a long name {index}") });
        let frames: Vec<_> = (0..depth)
            .map(|level| {
                let name = format!(
                    "Contoso.Shop.Orders.Service{}.HandleTheOrder{level}(System.String, int)",
                    index % distinct
                );
                let (name, module) = (profile.string(&name), profile.string("Contoso.Shop.dll"));
                profile.frame(Frame { kind: FrameKind::Managed, name, module: Some(module), file: None, line: None })
            })
            .collect();
        let stack = profile.stack_from_root(frames).expect("there are frames");
        let weight = 10_000_000 + u64::from(index);
        profile.add_sample(Sample { time: u64::from(index) * 1_000, thread, stack, weight, state: State::Running });
    }
}

#[test]
fn none_one_and_very_many_stay_readable_on_any_width() {
    let mut many = Profile::new(Meta { frequency: 100, duration: 1_000_000_000, ..Meta::default() });
    add_samples(&mut many, 500, 20, 500);
    for (name, profile, methods) in [("many", many, 10_000), ("one", deep(1), 1), ("none", Profile::default(), 0)] {
        let browser = open(name, &profile);
        times_are_read(&browser);
        assert_eq!(browser.run("return page.model.methods.length"), methods);
        for (width, height) in [(420, 800), (1280, 800)] {
            browser.resize(width, height);
            let outside = browser.run(
                "return [document.documentElement.scrollWidth - document.documentElement.clientWidth, document.querySelectorAll('#rows tr').length <= 100,
                     document.querySelectorAll('#lanes li').length <= 7, page.graph.stage.clientHeight >= 120,
                     document.getElementById('panel').clientHeight >= 40]",
            );
            assert_eq!(outside, serde_json::json!([0, true, true, true, true]), "{name}, {width}");
        }
        assert_eq!(browser.run("return document.getElementById('timeline').hidden"), methods == 0);
        let complaints = browser.complaints();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

/// Two threads of the pool on which an async method continues, and one that computes.
fn with_a_pool() -> Profile {
    let mut profile = Profile::new(Meta { duration: 1_000_000_000, frequency: 100, ..Meta::default() });
    let mut frame = |name: &str, module: &str| {
        let (name, module) = (profile.string(name), Some(profile.string(module)));
        profile.frame(Frame { kind: FrameKind::Managed, name, module, file: None, line: None })
    };
    let framework = "System.Private.CoreLib.dll";
    let dispatch = frame("System.Threading.ThreadPoolWorkQueue.Dispatch()", framework);
    let resumes = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<int>.AsyncStateMachineBox<Score>.MoveNext()";
    let (resumes, runs) =
        (frame(resumes, framework), frame("System.Threading.ExecutionContext.RunInternal()", framework));
    let (score, similar) = (frame("Shop.Score(int)", "Shop.dll"), frame("Shop.Similar()", "Shop.dll"));
    for (id, frames) in [(1, &[similar][..]), (2, &[dispatch, resumes, runs, score, similar]), (3, &[dispatch, score])]
    {
        let thread = profile.add_thread(Thread { id, name: ".NET TP Worker".into() });
        let stack = profile.stack_from_root(frames.iter().copied()).expect("frames");
        for index in 0..4 {
            let time = index * 100_000_000;
            profile.add_sample(Sample { time, thread, stack, weight: 10_000_000, state: State::Running });
        }
    }
    profile
}

#[test]
fn threads_of_the_pool_are_one_lane_and_an_async_method_does_not_belong_to_who_resumed_it() {
    let browser = open("pool", &with_a_pool());
    times_are_read(&browser);
    let lanes = "return [...document.querySelectorAll('#lanes li')].map((lane) => lane.textContent).join('; ')";
    assert_eq!(browser.text(lanes), "All 3 threads; Thread pool: 2; .NET TP Worker (1)");
    // Once the box of its state machine calls it, once not.
    let resumed = "return page.graph.boxes.id.filter((id) => id > 0 && page.model.methods[page.graph.tree.method(id)].name.startsWith('Shop.Score'))
        .map((id) => page.describe(page.graph, id).facts.find(([label]) => label === 'Async')?.[1].slice(0, 26) ?? page.model.methods[page.graph.tree.method(page.graph.tree.parent(id))].call)
        .sort().join('; ')";
    assert_eq!(browser.text(resumed), "ThreadPoolWorkQueue.Dispatch; continues after an await: ");
    // All of its occurrences as one.
    browser.run("page.showAround(page.model.methods.findIndex(({ name }) => name.startsWith('Shop.Score')))");
    assert!(
        browser.text(STATUS).contains("Async where a state machine box calls it, it continues"),
        "{}",
        browser.text(STATUS)
    );
    browser.run("page.showAround(null)");
    let (x, y) = place(&browser, "Shop.Similar");
    browser.click_at(x, y);
    assert!(!browser.text(STATUS).contains("Async"), "{}", browser.text(STATUS));
    browser.keys(ESCAPE);
    browser.click("#lanes li:nth-child(2) button");
    let chosen = "const list = document.getElementById('thread'); return list.options[list.selectedIndex].textContent";
    assert_eq!(browser.text(chosen), "Thread pool: 2 threads");
    assert_eq!(browser.text(GRAPH).split(" | ").nth(1), Some("ThreadPoolWorkQueue.Dispatch 100"));
}
