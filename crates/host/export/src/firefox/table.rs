//! One thread of the processed format: columns that refer to each other by index, with only the items that the thread's samples use.

use super::milliseconds;
use remora_profile::{CodeKind, Frame, FrameIx, Profile, Sample, StackIx, StackNode, State, StringIx};
use serde::Serialize;
use std::collections::HashMap;

/// The format's number for a library resource.
const RESOURCE_IS_LIBRARY: u32 = 1;
/// "None" where the format has no null.
const NONE: i64 = -1;

/// The modules of a profile, numbered like the file's libs.
pub(super) struct Modules<'a> {
    pub names: Vec<&'a str>,
    places: HashMap<StringIx, usize>,
}

impl<'a> Modules<'a> {
    pub fn of(profile: &'a Profile) -> Modules<'a> {
        let mut modules = Modules { names: Vec::new(), places: HashMap::new() };
        for module in profile.frames().iter().filter_map(|frame| frame.module) {
            modules.places.entry(module).or_insert_with(|| {
                modules.names.push(profile.text(module));
                modules.names.len() - 1
            });
        }
        modules
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tables<'a> {
    name: String,
    is_main_thread: bool,
    pid: String,
    tid: u32,
    process_name: &'a str,
    process_type: &'static str,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: [(); 0],
    show_markers_in_timeline: bool,
    frame_table: Frames,
    func_table: Functions,
    markers: Markers,
    native_symbols: NativeSymbols,
    resource_table: Resources,
    samples: Samples,
    stack_table: Stacks,
    string_array: Vec<&'a str>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Frames {
    length: usize,
    address: Vec<i64>,
    inline_depth: Vec<u32>,
    category: Vec<usize>,
    subcategory: Vec<u32>,
    func: Vec<usize>,
    native_symbol: Vec<Option<usize>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Vec<u32>,
    line: Vec<Option<u32>>,
    column: Vec<Option<u32>>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Functions {
    length: usize,
    name: Vec<usize>,
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Vec<bool>,
    resource: Vec<i64>,
    file_name: Vec<Option<usize>>,
    line_number: Vec<Option<u32>>,
    column_number: Vec<Option<u32>>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Markers {
    length: usize,
    category: [(); 0],
    data: [(); 0],
    end_time: [(); 0],
    name: [(); 0],
    phase: [(); 0],
    start_time: [(); 0],
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct NativeSymbols {
    length: usize,
    address: [(); 0],
    function_size: [(); 0],
    lib_index: [(); 0],
    name: [(); 0],
}

#[derive(Serialize, Default)]
struct Resources {
    length: usize,
    lib: Vec<usize>,
    name: Vec<usize>,
    host: Vec<Option<usize>>,
    #[serde(rename = "type")]
    kind: Vec<u32>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Samples {
    length: usize,
    weight_type: &'static str,
    stack: Vec<usize>,
    time_deltas: Vec<f64>,
    weight: Vec<f64>,
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: Vec<u64>,
}

#[derive(Serialize, Default)]
struct Stacks {
    length: usize,
    prefix: Vec<Option<usize>>,
    frame: Vec<usize>,
}

/// Less than an item takes in a table, bytes.
const STACK: u64 = 4;
const FRAME: u64 = 40;

/// What the tables of each thread take at least: each stack, frame and name that a thread uses is in its own tables.
pub(super) fn sizes<'a>(
    profile: &'a Profile,
    threads: &'a [(usize, Vec<&'a Sample>)],
) -> impl Iterator<Item = u64> + use<'a> {
    let never = usize::MAX;
    let mut stacks = vec![never; profile.stacks().len()];
    let (mut frames, mut strings) = (vec![never; profile.frames().len()], vec![never; profile.strings().len()]);
    let samples = threads.iter().flat_map(|(thread, samples)| samples.iter().map(|sample| (*thread, sample.stack)));
    samples.map(move |(thread, stack)| {
        let is_new = |place: &mut usize| std::mem::replace(place, thread) != thread;
        let (mut size, mut next) = (0, Some(stack));
        while let Some(stack) = next.filter(|stack| is_new(&mut stacks[stack.0 as usize])) {
            let StackNode { parent, frame } = *profile.stack_at(stack);
            size += STACK;
            if is_new(&mut frames[frame.0 as usize]) {
                let Frame { name, module, file, .. } = *profile.frame_at(frame);
                let new = [Some(name), module, file].into_iter().flatten();
                let new = new.filter(|string| is_new(&mut strings[string.0 as usize]));
                size += FRAME + new.map(|string| profile.text(string).len() as u64).sum::<u64>();
            }
            next = parent;
        }
        size
    })
}

impl<'a> Tables<'a> {
    pub fn of(profile: &'a Profile, modules: &Modules<'a>, thread: usize, samples: &[&Sample]) -> Tables<'a> {
        let meta = &profile.meta;
        let thread = &profile.threads()[thread];
        let mut builder = Builder::new(profile, modules);
        let samples = builder.samples(samples);
        Tables {
            name: if thread.name.is_empty() { thread.label() } else { thread.name.clone() },
            is_main_thread: thread.id == meta.process_id,
            pid: meta.process_id.to_string(),
            tid: thread.id,
            process_name: &meta.application,
            process_type: "default",
            process_startup_time: 0.0,
            process_shutdown_time: None,
            register_time: 0.0,
            unregister_time: None,
            paused_ranges: [],
            show_markers_in_timeline: false,
            frame_table: builder.frames,
            func_table: builder.functions,
            markers: Markers::default(),
            native_symbols: NativeSymbols::default(),
            resource_table: builder.resources,
            samples,
            stack_table: builder.stacks,
            string_array: builder.strings,
        }
    }
}

/// Adds items to a thread's tables as its samples need them.
struct Builder<'a, 'm> {
    profile: &'a Profile,
    modules: &'m Modules<'a>,
    strings: Vec<&'a str>,
    string_places: HashMap<StringIx, usize>,
    resources: Resources,
    resource_places: HashMap<StringIx, usize>,
    functions: Functions,
    function_places: HashMap<(StringIx, Option<StringIx>, Option<StringIx>), usize>,
    frames: Frames,
    frame_places: HashMap<FrameIx, usize>,
    stacks: Stacks,
    stack_places: HashMap<StackIx, usize>,
}

impl<'a, 'm> Builder<'a, 'm> {
    fn new(profile: &'a Profile, modules: &'m Modules<'a>) -> Self {
        Builder {
            profile,
            modules,
            strings: Vec::new(),
            string_places: HashMap::new(),
            resources: Resources::default(),
            resource_places: HashMap::new(),
            functions: Functions::default(),
            function_places: HashMap::new(),
            frames: Frames::default(),
            frame_places: HashMap::new(),
            stacks: Stacks::default(),
            stack_places: HashMap::new(),
        }
    }

    fn samples(&mut self, samples: &[&Sample]) -> Samples {
        let mut table = Samples { length: samples.len(), weight_type: "tracing-ms", ..Samples::default() };
        let mut last = 0;
        for sample in samples {
            table.stack.push(self.stack(sample.stack));
            table.time_deltas.push(milliseconds(sample.time - last));
            table.weight.push(milliseconds(sample.weight));
            let running = sample.state == State::Running;
            table.thread_cpu_delta.push(if running { sample.weight / 1_000 } else { 0 });
            last = sample.time;
        }
        table
    }

    /// A stack, added after all its callers.
    fn stack(&mut self, stack: StackIx) -> usize {
        let mut missing = Vec::new();
        let mut next = Some(stack);
        while let Some(stack) = next.filter(|stack| !self.stack_places.contains_key(stack)) {
            missing.push(stack);
            next = self.profile.stack_at(stack).parent;
        }
        let mut prefix = next.map(|known| self.stack_places[&known]);
        for stack in missing.into_iter().rev() {
            let frame = self.frame(self.profile.stack_at(stack).frame);
            self.stacks.prefix.push(prefix);
            self.stacks.frame.push(frame);
            self.stack_places.insert(stack, self.stacks.length);
            prefix = Some(self.stacks.length);
            self.stacks.length += 1;
        }
        self.stack_places[&stack]
    }

    fn frame(&mut self, index: FrameIx) -> usize {
        if let Some(&place) = self.frame_places.get(&index) {
            return place;
        }
        let frame = self.profile.frame_at(index);
        let func = self.function(index);
        let table = &mut self.frames;
        table.address.push(NONE);
        table.inline_depth.push(0);
        table.category.push(CodeKind::of(self.profile, frame).index());
        table.subcategory.push(0);
        table.func.push(func);
        table.native_symbol.push(None);
        table.inner_window_id.push(0);
        table.line.push(frame.line);
        table.column.push(None);
        self.frame_places.insert(index, table.length);
        table.length += 1;
        table.length - 1
    }

    fn function(&mut self, frame: FrameIx) -> usize {
        let frame = self.profile.frame_at(frame);
        let key = (frame.name, frame.module, frame.file);
        if let Some(&place) = self.function_places.get(&key) {
            return place;
        }
        let name = self.string(frame.name);
        let file_name = frame.file.map(|file| self.string(file));
        let resource = frame.module.map_or(NONE, |module| self.resource(module) as i64);
        let table = &mut self.functions;
        table.name.push(name);
        table.is_js.push(false);
        table.relevant_for_js.push(false);
        table.resource.push(resource);
        table.file_name.push(file_name);
        table.line_number.push(None);
        table.column_number.push(None);
        self.function_places.insert(key, table.length);
        table.length += 1;
        table.length - 1
    }

    fn resource(&mut self, module: StringIx) -> usize {
        if let Some(&place) = self.resource_places.get(&module) {
            return place;
        }
        let name = self.string(module);
        let table = &mut self.resources;
        table.lib.push(self.modules.places[&module]);
        table.name.push(name);
        table.host.push(None);
        table.kind.push(RESOURCE_IS_LIBRARY);
        self.resource_places.insert(module, table.length);
        table.length += 1;
        table.length - 1
    }

    fn string(&mut self, string: StringIx) -> usize {
        let text = self.profile.text(string);
        *self.string_places.entry(string).or_insert_with(|| {
            self.strings.push(text);
            self.strings.len() - 1
        })
    }
}
