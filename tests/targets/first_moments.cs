// What a process does before it can be attached to, and what its children inherit.
//
// first_moments [MILLISECONDS]
// Main uses so much CPU time before anything else. Then the program prints on one line:
// the nanoseconds of CPU time that this took, by the thread's own clock; the profiler's variables that managed code sees; those that a
// child process sees. It ends at `quit` with exit code 7.
using System;
using System.Collections;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Runtime.CompilerServices;

static class FirstMoments
{
    static int Main(string[] arguments)
    {
        int milliseconds = arguments.Length > 0 ? int.Parse(arguments[0]) : 1000;
        long used = First(milliseconds);
        var own = Environment.GetEnvironmentVariables().Cast<DictionaryEntry>().Select(entry => entry.Key.ToString());
        var start = new ProcessStartInfo("env") { RedirectStandardOutput = true, UseShellExecute = false };
        var child = Process.Start(start);
        var inherited = child.StandardOutput.ReadToEnd().Split('\n');
        child.WaitForExit();
        Console.WriteLine($"ready used={used} own={Profilers(own)} inherited={Profilers(inherited)}");
        while (Console.ReadLine() is string line && line != "quit")
        {
        }
        return 7;
    }

    static string Profilers(System.Collections.Generic.IEnumerable<string> names) =>
        string.Join(",", names.Where(name => name.StartsWith("CORECLR_") || name.StartsWith("REMORA_STARTUP") || name.EndsWith("_TieredCompilation")).OrderBy(name => name));

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long First(int milliseconds)
    {
        long before = CpuTime();
        while (CpuTime() < before + milliseconds * 1000000L)
        {
            var watch = Stopwatch.StartNew();
            while (watch.ElapsedMilliseconds < 10)
            {
            }
        }
        return CpuTime() - before;
    }

    static long CpuTime() => long.Parse(File.ReadAllText("/proc/thread-self/schedstat").Split(' ')[0]);
}
