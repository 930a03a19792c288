// What a program can do in its first moments.
//
// brief [exec|fork]
// Without an argument it ends at once, with exit code 7. `exec` replaces it by a shell that prints the profiler's variables of its
// environment, and ends with exit code 5. `fork` makes a child without another program, which ends with exit code 3, and prints that.
using System;
using System.Reflection;
using System.Runtime.InteropServices;

static class Brief
{
    [DllImport("libc")]
    static extern int execv(string path, string[] arguments);

    [DllImport("libc")]
    static extern int fork();

    [DllImport("libc")]
    static extern void _exit(int code);

    [DllImport("libc")]
    static extern int waitpid(int process, out int status, int options);

    static int Main(string[] arguments)
    {
        string what = arguments.Length > 0 ? arguments[0] : "";
        if (what == "exec")
        {
            string list = "echo \"replaced: $(env | grep -E 'CORECLR_|REMORA_STARTUP' | tr '\\n' ' ')\"; exit 5";
            execv("/bin/sh", new[] { "sh", "-c", list, null });
        }
        if (what == "fork")
        {
            // Prepared before: the child has only this thread, so it may compile nothing.
            foreach (string call in new[] { "fork", "_exit", "waitpid" })
                Marshal.Prelink(typeof(Brief).GetMethod(call, BindingFlags.NonPublic | BindingFlags.Static));
            int child = fork();
            if (child == 0)
                _exit(3);
            waitpid(child, out int status, 0);
            Console.WriteLine($"forked {status >> 8}");
        }
        return 7;
    }
}
