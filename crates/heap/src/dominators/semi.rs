//! Semidominators, by number.
//!
//! A reference from a lower to a higher number leads from an ancestor to a descendant, so that the lower number is a candidate as it is:
//! only references that lead back to a lower number are kept and followed through the forest.

use super::search::Search;
use crate::graph::HeapGraph;

/// What is known of one number. One array for both, since they are needed together.
#[derive(Clone, Copy)]
struct Cell {
    /// Below the number in question: the least candidate so far for its semidominator.
    /// From there on: the least semidominator on the compressed way up, its own included.
    least: u32,
    /// Below the number in question: where its references from higher numbers begin.
    /// From there on: the next node on the compressed way up.
    link: u32,
}

/// For each number its semidominator. What the search knows of objects' numbers is given up on the way.
pub(super) fn semidominators(graph: &HeapGraph, search: &mut Search) -> Vec<u32> {
    let mut cells: Vec<Cell> = search.parents.iter().map(|&parent| Cell { least: parent, link: 0 }).collect();
    for root in graph.roots() {
        cells[search.numbers[root.object.0 as usize] as usize].least = 0;
    }
    let back = references_back(graph, search, &mut cells);
    search.numbers = Vec::new();
    let mut semi = vec![0; cells.len()];
    let mut way = Vec::new();
    let mut end = back.len();
    for number in (1..cells.len()).rev() {
        let Cell { mut least, link: begin } = cells[number];
        for &source in &back[begin as usize..end] {
            least = least.min(least_above(&mut cells, source, number as u32, &mut way));
        }
        end = begin as usize;
        semi[number] = least;
        cells[number] = Cell { least, link: search.parents[number] };
    }
    semi
}

/// The references that lead from a higher to a lower number: their sources, by target. Where those of a target begin is left in its cell.
fn references_back(graph: &HeapGraph, search: &Search, cells: &mut [Cell]) -> Vec<u32> {
    let numbers = &search.numbers;
    let living = search.unreached.unwrap_or(u32::MAX);
    // What no root reaches holds nothing that a root reaches.
    let leads_back = |source: u32, target: u32| target < source && (source < living || target > living);
    for (object, &source) in numbers.iter().enumerate() {
        for &target in graph.targets(object as u32) {
            let target = numbers[target as usize];
            let cell = &mut cells[target as usize];
            if source < target {
                cell.least = cell.least.min(source);
            } else if leads_back(source, target) {
                cell.link += 1;
            }
        }
    }
    let mut end = 0;
    for cell in cells.iter_mut() {
        end += cell.link;
        cell.link = end;
    }
    // Filled from behind, each end moves down to its beginning.
    let mut back = vec![0; end as usize];
    for (object, &source) in numbers.iter().enumerate() {
        for &target in graph.targets(object as u32) {
            let target = numbers[target as usize];
            if leads_back(source, target) {
                let place = &mut cells[target as usize].link;
                *place -= 1;
                back[*place as usize] = source;
            }
        }
    }
    back
}

/// The least semidominator on the way up from `from` to the last node above `limit`. Shortens the way for those who come later.
#[inline]
fn least_above(cells: &mut [Cell], from: u32, limit: u32, way: &mut Vec<u32>) -> u32 {
    let Cell { least, link } = cells[from as usize];
    if link <= limit {
        return least;
    }
    way.push(from);
    let mut here = link;
    let mut top = cells[here as usize];
    while top.link > limit {
        way.push(here);
        here = top.link;
        top = cells[here as usize];
    }
    while let Some(below) = way.pop() {
        let cell = &mut cells[below as usize];
        top.least = top.least.min(cell.least);
        *cell = top;
    }
    top.least
}
