// Threads that wait for a short and for a long time in turns, with little CPU time in between. More waits than a budget of signals allows.
//
// waits THREADS [start]
// With `start`, the short wait is for the start of a program, and the long one for its end.
// `waited` answers the seconds that all threads have spent so far in the short wait and in the long one.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Threading;

static class Waits
{
    static readonly long[] waited = new long[2];

    static void Main(string[] arguments)
    {
        int threads = arguments.Length > 0 ? int.Parse(arguments[0]) : 24;
        for (int i = 0; i < threads; i++)
        {
            int first = i;
            bool starts = arguments.Length > 1;
            new Thread(() => Work(first, starts)) { IsBackground = true, Name = "waits" }.Start();
        }
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "waited" ? Waited() : "unknown");
    }

    static string Waited() => string.Join(" ", Array.ConvertAll(waited, ticks =>
        ((double)Interlocked.Read(ref ticks) / Stopwatch.Frequency).ToString(CultureInfo.InvariantCulture)));

    static void Work(int first, bool starts)
    {
        Thread.Sleep(first % 10);
        while (starts)
        {
            Process child = null;
            Count(0, () => child = StartWait());
            Count(1, child.WaitForExit);
        }
        while (true)
        {
            Count(0, ShortWait);
            Count(1, LongWait);
        }
    }

    static void Count(int which, Action wait)
    {
        long begun = Stopwatch.GetTimestamp();
        wait();
        Interlocked.Add(ref waited[which], Stopwatch.GetTimestamp() - begun);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ShortWait() => Thread.Sleep(1);

    [MethodImpl(MethodImplOptions.NoInlining)]
    static Process StartWait() => Process.Start("sleep", "0.1");

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void LongWait() => Thread.Sleep(12);
}
