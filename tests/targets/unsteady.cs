// Works, and meanwhile changes on demand what a profiler takes for granted.
//
// `start N` starts N threads, one after another, each of which works for a moment; `run N` runs N child processes;
// `become USER` changes the user of the process. Each answers what it was asked, when it has been done.
// `count` answers the rounds of the thread that always works.
using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

static class Unsteady
{
    /// Turns of the loop for which a short thread works: some tenths of a millisecond.
    const int Moment = 100_000;
    static long rounds;

    static void Main()
    {
        new Thread(Work) { IsBackground = true, Name = "steady" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            if (line == "count")
            {
                Console.WriteLine(Interlocked.Read(ref rounds));
                continue;
            }
            string[] words = line.Split(' ');
            int number = words.Length > 1 ? int.Parse(words[1]) : 0;
            bool known = words[0] == "start" ? StartThreads(number) : words[0] == "run" ? RunChildren(number)
                : words[0] == "become" && setresuid(number, number, number) == 0;
            Console.WriteLine(known ? line : "failed: " + line);
        }
    }

    static void Work()
    {
        while (true)
        {
            Steady(Moment);
            Interlocked.Increment(ref rounds);
        }
    }

    static bool StartThreads(int count)
    {
        for (int i = 0; i < count; i++)
        {
            var thread = new Thread(() => ShortLived(Moment));
            thread.Start();
            thread.Join();
        }
        return true;
    }

    static bool RunChildren(int count)
    {
        for (int i = 0; i < count; i++)
        {
            using (Process child = Process.Start(new ProcessStartInfo("/bin/true") { UseShellExecute = false }))
            {
                child.WaitForExit();
                if (child.ExitCode != 0)
                    return false;
            }
        }
        return true;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static uint Steady(int turns)
    {
        return Turn(turns);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static uint ShortLived(int turns)
    {
        return Turn(turns);
    }

    static uint Turn(int turns)
    {
        uint state = 1;
        for (int i = 0; i < turns; i++)
            state = state * 1664525 + 1013904223;
        return state;
    }

    [DllImport("libc", SetLastError = true)]
    static extern int setresuid(int real, int effective, int saved);
}
