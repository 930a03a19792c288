//! The order of stacks in the page: depth first in the tree of methods, and stacks that differ in lines only side by side.
//!
//! So the script merges them in one pass without a table.

use remora_profile::{Profile, StackIx};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The stacks that are `used`; each after its caller.
pub(super) fn in_order(profile: &Profile, used: &[bool]) -> Vec<StackIx> {
    let methods = methods(profile);
    let method = |stack: &StackIx| methods[profile.stack_at(*stack).frame.0 as usize];
    let callees = Callees::of(profile, used);
    let mut order = Vec::new();
    // Stacks with their group. A group has the same caller in the tree of methods, and the same method.
    let mut todo: Vec<(StackIx, u32)> = Vec::new();
    let mut next_group = 0;
    let mut children: Vec<StackIx> = callees.of_none().to_vec();
    loop {
        children.sort_unstable_by_key(|stack| Reverse((method(stack), *stack)));
        for same in children.chunk_by(|one, other| method(one) == method(other)) {
            todo.extend(same.iter().map(|stack| (*stack, next_group)));
            next_group += 1;
        }
        children.clear();
        let Some(&(_, group)) = todo.last() else { return order };
        while let Some((stack, _)) = todo.pop_if(|(_, of)| *of == group) {
            order.push(stack);
            children.extend(callees.of_stack(stack));
        }
    }
}

/// The number of each frame's method: frames that differ in the line only are one method.
fn methods(profile: &Profile) -> Vec<u32> {
    let mut known = HashMap::new();
    let number = |frame: &remora_profile::Frame| {
        let next = known.len() as u32;
        *known.entry((frame.name, frame.module)).or_insert(next)
    };
    profile.frames().iter().map(number).collect()
}

/// The used stacks by caller.
struct Callees {
    /// Where those of each stack begin in `stacks`. Those without a caller come first.
    starts: Vec<u32>,
    stacks: Vec<StackIx>,
}

impl Callees {
    fn of(profile: &Profile, used: &[bool]) -> Callees {
        let all = || (0..).map(StackIx).zip(profile.stacks()).filter(|(stack, _)| used[stack.0 as usize]);
        let caller = |parent: Option<StackIx>| parent.map_or(0, |parent| parent.0 as usize + 1);
        let mut starts = vec![0; profile.stacks().len() + 2];
        all().for_each(|(_, node)| starts[caller(node.parent) + 1] += 1);
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let mut next = starts.clone();
        let mut stacks = vec![StackIx(0); starts[starts.len() - 1] as usize];
        for (stack, node) in all() {
            let place = &mut next[caller(node.parent)];
            stacks[*place as usize] = stack;
            *place += 1;
        }
        Callees { starts, stacks }
    }

    fn of_none(&self) -> &[StackIx] {
        self.at(0)
    }

    fn of_stack(&self, stack: StackIx) -> &[StackIx] {
        self.at(stack.0 as usize + 1)
    }

    fn at(&self, caller: usize) -> &[StackIx] {
        &self.stacks[self.starts[caller] as usize..self.starts[caller + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, FrameIx, Meta};

    #[test]
    fn stacks_of_one_node_are_side_by_side_and_callees_follow_their_caller() {
        let mut profile = Profile::new(Meta::default());
        let mut frame = |name: &str, line: u32| -> FrameIx {
            let name = profile.string(name);
            profile.frame(Frame { line: Some(line), ..Frame::unknown(name) })
        };
        let (a1, a2, b, c1, c2) = (frame("a", 1), frame("a", 2), frame("b", 1), frame("c", 1), frame("c", 2));
        // Two lines of `a` call `c`, with `b` in between; one stack is not used.
        let first = profile.stack(None, a1);
        let first_c = profile.stack(Some(first), c1);
        let other = profile.stack(None, b);
        let second = profile.stack(None, a2);
        let second_b = profile.stack(Some(second), b);
        let second_c = profile.stack(Some(second), c2);
        let unused = profile.stack(Some(other), c1);
        let mut used = vec![true; 7];
        used[unused.0 as usize] = false;
        assert_eq!(in_order(&profile, &used), [first, second, second_b, first_c, second_c, other]);
        assert_eq!(in_order(&Profile::new(Meta::default()), &[]), []);
    }
}
