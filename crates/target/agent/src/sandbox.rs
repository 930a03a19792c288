//! The forked copy can affect nothing outside of itself.
//!
//! A copy only walks the heap, and calls only runtime functions that need no other thread. The runtime's code could still fail in it, and
//! clean up as if the process ended. Tried on 9.0.7, in a copy in which the runtime had to give up. The runtime removed the process's
//! diagnostics socket and the debugger's pipes from the temporary directory. Nothing could attach to the process any more. So the kernel
//! allows a copy to take memory, wait, and end, and refuses all else.
//!
//! If the kernel has no filters, or refuses one, the copy goes on without it.

use std::ffi::{c_long, c_ulong};

/// System calls that a copy may still use. Our own walk needs them, and the runtime, for some memory or a free lock.
const ALLOWED: [c_long; 22] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    // Reads how much memory is left, from files that were opened before. There are no other descriptors.
    libc::SYS_pread64,
    // Continues a wait that a stop interrupted.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
];

/// The kernel's number of the machine (`AUDIT_ARCH_…` of linux/audit.h: the number of its ELF files, 64 bits, little-endian).
#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0xC000_0000 | libc::EM_X86_64 as u32;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0xC000_0000 | libc::EM_AARCH64 as u32;

/// The offsets of the system call's number and of the machine in a filter's input (`struct seccomp_data` of linux/seccomp.h).
const NUMBER_AT: u32 = 0;
const MACHINE_AT: u32 = 4;

/// Two steps check the machine, one loads the number, one checks each allowed call, and two end the filter.
const LENGTH: usize = 3 + ALLOWED.len() + 2;
const REFUSES: usize = LENGTH - 2;
const ALLOWS: usize = LENGTH - 1;

/// From now on the kernel refuses all calls not in [`ALLOWED`], for the calling thread and all that it starts. Returns whether it does.
pub fn confine() -> bool {
    let mut filter = filter();
    let program = libc::sock_fprog { len: LENGTH as u16, filter: filter.as_mut_ptr() };
    let (yes, none): (c_ulong, c_ulong) = (1, 0);
    // Not by seccomp(2): an existing filter, such as a service manager's, may kill its caller, and prctl(2) is in every such list. Before
    // Linux 5.16, the copy then runs with the processor's slower guards against speculation, which seccomp(2) could have refused. Only the
    // copy does: a filter belongs to a thread.
    // SAFETY: numbers, and a program that lives during the call. Without new privileges, any process may set a filter.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, none, none, none) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, c_ulong::from(libc::SECCOMP_MODE_FILTER), &raw const program) == 0
    }
}

fn filter() -> [libc::sock_filter; LENGTH] {
    let ends = |answer| step(libc::BPF_RET | libc::BPF_K, answer, 0);
    let mut filter = [ends(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32); LENGTH];
    filter[0] = load(MACHINE_AT);
    // On another machine, the numbers have other meanings.
    filter[1] = libc::sock_filter { jf: (REFUSES - 2) as u8, ..step(EQUAL, MACHINE, 0) };
    filter[2] = load(NUMBER_AT);
    for (index, number) in ALLOWED.into_iter().enumerate() {
        let here = 3 + index;
        filter[here] = step(EQUAL, number as u32, (ALLOWS - here - 1) as u8);
    }
    filter[ALLOWS] = ends(libc::SECCOMP_RET_ALLOW);
    filter
}

const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;

fn load(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0)
}

/// A step. If it is a comparison that holds, `skips` more steps are skipped.
const fn step(code: u32, value: u32, skips: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: skips, jf: 0, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::pause;
    use std::ffi::{CStr, CString};

    /// In a copy of this process: the calls of a walk work, and all others are refused.
    fn stays_inside(file: &CStr, parent: i32) -> bool {
        // SAFETY: live C strings and numbers; only memory mapped here is unmapped.
        unsafe {
            let refused = |answer: c_long| answer == -1 && *libc::__errno_location() == libc::EPERM;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0);
            pause(1);
            memory != libc::MAP_FAILED
                && libc::munmap(memory, 4096) == 0
                && libc::syscall(libc::SYS_getppid) == c_long::from(parent)
                && refused(libc::unlink(file.as_ptr()).into())
                && refused(libc::kill(parent, 0).into())
                && refused(libc::open(file.as_ptr(), libc::O_RDONLY).into())
                && refused(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).into())
                && refused(libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0))
        }
    }

    #[test]
    fn regression_a_copy_in_which_the_runtime_gives_up_takes_nothing_of_the_process_with_it() {
        let path = std::env::temp_dir().join(format!("remora-confined-{}", std::process::id()));
        std::fs::write(&path, "").expect("a temporary file can be written");
        let name = CString::new(path.to_str().expect("a path in UTF-8")).expect("a path without a zero");
        let parent = std::process::id() as i32;
        // SAFETY: the child neither allocates nor locks, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = if !confine() { 1 } else { i32::from(!stays_inside(&name, parent)) * 2 };
            crate::copy_end::end_of_copy(status);
        }
        let mut status = -1;
        // SAFETY: an own child; `status` is live.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(
            status, 0,
            "1 << 8: no filter could be set; 2 << 8: something was let out, or something was refused that is needed"
        );
        assert!(path.exists());
        std::fs::remove_file(&path).expect("nobody else has removed it");
    }
}
