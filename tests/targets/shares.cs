// Burns known shares of processor time in methods whose loops call nothing, allocate nothing and hold no safepoint.
//
// shares [PERIOD_MILLISECONDS [SHARE_OF_ALPHA SHARE_OF_BETA SHARE_OF_GAMMA]]
// Every period runs Alpha, Beta and Gamma once, each for its share. The loop counts are found at the start, so the period holds on any machine.
// `shares` answers what the thread's own processor clock says that each method took since `reset`: the truth to compare a profile with.
// `count` answers the periods so far.
using System;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

static class Shares
{
    const MethodImplOptions Plain = MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization;
    const int ThreadProcessorClock = 3;

    static readonly double[] wanted = { 0.5, 0.3, 0.2 };
    static readonly long[] loops = new long[3];
    static readonly long[] taken = new long[3];
    static long periods;
    static volatile bool reset;
    static ulong sink;

    struct Time
    {
        public long Seconds;
        public long Nanoseconds;
    }

    [DllImport("libc")]
    static extern int clock_gettime(int clock, out Time time);

    static void Main(string[] arguments)
    {
        double period = arguments.Length > 0 ? double.Parse(arguments[0], CultureInfo.InvariantCulture) : 1.0;
        for (int i = 1; i < arguments.Length; i++)
            wanted[i - 1] = double.Parse(arguments[i], CultureInfo.InvariantCulture);
        var calibrated = new ManualResetEventSlim();
        new Thread(() => Work(period, calibrated)) { IsBackground = true, Name = "shares" }.Start();
        calibrated.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string question)
    {
        switch (question)
        {
            case "count": return Interlocked.Read(ref periods).ToString();
            case "reset": reset = true; SpinWait.SpinUntil(() => !reset); return "reset";
            case "shares": return Truth();
            default: return "unknown";
        }
    }

    /// What each method took of the time that all three took.
    static string Truth()
    {
        double all = taken[0] + taken[1] + taken[2];
        return string.Format(CultureInfo.InvariantCulture, "Alpha={0:F5} Beta={1:F5} Gamma={2:F5}", taken[0] / all, taken[1] / all, taken[2] / all);
    }

    static void Work(double period, ManualResetEventSlim calibrated)
    {
        Calibrate(period);
        calibrated.Set();
        while (true)
            Cycle();
    }

    /// Finds how many turns of each loop fill its share of the period.
    static void Calibrate(double period)
    {
        const long Turns = 20000000;
        double[] perTurn = new double[3];
        for (int i = 0; i < 3; i++)
        {
            double best = double.MaxValue;
            for (int trial = 0; trial < 3; trial++)
            {
                long start = Now();
                Run(i, Turns);
                best = Math.Min(best, (double)(Now() - start) / Turns);
            }
            perTurn[i] = best;
            loops[i] = (long)(period * 1e6 * wanted[i] / perTurn[i]);
        }
    }

    [MethodImpl(Plain)]
    static void Cycle()
    {
        if (reset)
        {
            taken[0] = taken[1] = taken[2] = 0;
            reset = false;
        }
        long start = Now();
        sink += Alpha(loops[0]);
        long alpha = Now();
        sink += Beta(loops[1]);
        long beta = Now();
        sink += Gamma(loops[2]);
        long gamma = Now();
        taken[0] += alpha - start;
        taken[1] += beta - alpha;
        taken[2] += gamma - beta;
        periods++;
    }

    static void Run(int method, long turns)
    {
        sink += method == 0 ? Alpha(turns) : method == 1 ? Beta(turns) : Gamma(turns);
    }

    static long Now()
    {
        clock_gettime(ThreadProcessorClock, out Time time);
        return time.Seconds * 1000000000 + time.Nanoseconds;
    }

    [MethodImpl(Plain)]
    static ulong Alpha(long turns)
    {
        ulong state = 1;
        for (long i = 0; i < turns; i++)
            state = state * 6364136223846793005 + 1442695040888963407;
        return state;
    }

    [MethodImpl(Plain)]
    static ulong Beta(long turns)
    {
        ulong state = 2;
        for (long i = 0; i < turns; i++)
            state = (state ^ (state >> 13)) * 0x9E3779B97F4A7C15;
        return state;
    }

    [MethodImpl(Plain)]
    static ulong Gamma(long turns)
    {
        ulong state = 3;
        for (long i = 0; i < turns; i++)
            state = (state << 7 | state >> 57) + 0xD1B54A32D192ED03;
        return state;
    }
}
