// Spends half of its processor time in the kernel and half in managed code: what a sampler sees that may not look into the kernel.
//
// syscalls
// InSystemCalls copies zeros from /dev/zero, nearly all of it kernel time; InManagedCode counts. They take turns of a millisecond each.
// `shares` answers the truth by the thread's own processor clock since `reset`; `count` answers the turns so far.
using System;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

static class Syscalls
{
    const MethodImplOptions Plain = MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization;
    const int ThreadProcessorClock = 3;
    const long TurnNanoseconds = 1000000;

    static long inSystemCalls;
    static long inManagedCode;
    static long turns;
    static volatile bool reset;
    static ulong sink;

    struct Time
    {
        public long Seconds;
        public long Nanoseconds;
    }

    [DllImport("libc")]
    static extern int clock_gettime(int clock, out Time time);

    [DllImport("libc")]
    static extern int open(string path, int flags);

    [DllImport("libc")]
    static extern unsafe IntPtr read(int descriptor, byte* buffer, IntPtr length);

    static void Main()
    {
        var calibrated = new ManualResetEventSlim();
        new Thread(() => Work(calibrated)) { IsBackground = true, Name = "syscalls" }.Start();
        calibrated.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string question)
    {
        switch (question)
        {
            case "count": return Interlocked.Read(ref turns).ToString();
            case "reset": reset = true; SpinWait.SpinUntil(() => !reset); return "reset";
            case "shares":
                double all = inSystemCalls + inManagedCode;
                return string.Format(CultureInfo.InvariantCulture, "InSystemCalls={0:F5} InManagedCode={1:F5}", inSystemCalls / all, inManagedCode / all);
            default: return "unknown";
        }
    }

    static void Work(ManualResetEventSlim calibrated)
    {
        int zero = open("/dev/zero", 0);
        long calls = Fit(count => InSystemCalls(zero, count), 1000);
        long loops = Fit(InManagedCode, 10000000);
        calibrated.Set();
        while (true)
            Turn(zero, calls, loops);
    }

    /// How often something must be repeated to last one turn.
    static long Fit(Action<long> work, long trial)
    {
        double best = double.MaxValue;
        for (int i = 0; i < 3; i++)
        {
            long start = Now();
            work(trial);
            best = Math.Min(best, (double)(Now() - start) / trial);
        }
        return Math.Max(1, (long)(TurnNanoseconds / best));
    }

    [MethodImpl(Plain)]
    static void Turn(int zero, long calls, long loops)
    {
        if (reset)
        {
            inSystemCalls = inManagedCode = 0;
            reset = false;
        }
        long start = Now();
        InSystemCalls(zero, calls);
        long middle = Now();
        InManagedCode(loops);
        long end = Now();
        inSystemCalls += middle - start;
        inManagedCode += end - middle;
        turns++;
    }

    [MethodImpl(Plain)]
    static unsafe void InSystemCalls(int zero, long calls)
    {
        const int Length = 32768;
        byte* buffer = stackalloc byte[Length];
        for (long i = 0; i < calls; i++)
            read(zero, buffer, (IntPtr)Length);
    }

    [MethodImpl(Plain)]
    static void InManagedCode(long loops)
    {
        ulong state = 1;
        for (long i = 0; i < loops; i++)
            state = state * 6364136223846793005 + 1442695040888963407;
        sink += state;
    }

    static long Now()
    {
        clock_gettime(ThreadProcessorClock, out Time time);
        return time.Seconds * 1000000000 + time.Nanoseconds;
    }
}
