// Works in short bursts between waits, as a service does, and measures each burst by the clock of its thread.
//
// bursts ACTOR...
// An actor is WAKER:PAUSE:PHASE:THREADS:BURST[+BURST]...
// WAKER ends the wait before each burst: delay (await Task.Delay), sleep (Thread.Sleep), socket, semaphore (SemaphoreSlim), pool (a work
// item of the thread pool). PAUSE is the length of the wait in whole milliseconds. PHASE is the time in milliseconds between a kernel tick
// and the start of the burst; `-` starts the burst at once. THREADS actors of this kind run side by side.
// BURST is METHOD*MILLISECONDS of CPU time, such as Alpha*0.3; `k` at its end spends half of it in system calls. Several take turns.
// `shares` answers the share of each method since `reset`, by the clocks of the threads; `nanoseconds` the same as CPU time.
// `count` answers the bursts so far.
using System;
using System.Globalization;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

static class Bursts
{
    const MethodImplOptions Plain = MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization;
    const int Monotonic = 1, ThreadCpu = 3, MonotonicCoarse = 6, AbsoluteTime = 1;
    const long Millisecond = 1000000;

    delegate void Body(long loops, long calls);

    static readonly string[] names = { "Alpha", "Beta", "Gamma", "Delta" };
    static readonly Body[] methods = { Alpha, Beta, Gamma, Delta };
    static readonly double[] perLoop = new double[methods.Length];
    static readonly long[] taken = new long[methods.Length];
    static double perCall;
    /// Time that one reading of the clock adds to a burst.
    static long reading;
    static long tickPeriod;
    /// The time of a tick, by the monotonic clock.
    static long tick;
    static int zero;
    static long bursts;
    static ulong sink;

    struct Time
    {
        public long Seconds;
        public long Nanoseconds;
    }

    struct Burst
    {
        public int Method;
        public long Loops;
        public long Calls;
    }

    [DllImport("libc")]
    static extern int clock_gettime(int clock, out Time time);

    [DllImport("libc")]
    static extern int clock_getres(int clock, out Time time);

    [DllImport("libc")]
    static extern int clock_nanosleep(int clock, int flags, ref Time until, IntPtr remaining);

    [DllImport("libc")]
    static extern int open(string path, int flags);

    [DllImport("libc")]
    static extern unsafe IntPtr read(int descriptor, byte* buffer, IntPtr length);

    static void Main(string[] arguments)
    {
        zero = open("/dev/zero", 0);
        ThreadPool.SetMinThreads(64, 64);
        Calibrate();
        foreach (string actor in arguments)
            Start(actor.Split(':'));
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string question)
    {
        switch (question)
        {
            case "count": return Interlocked.Read(ref bursts).ToString();
            case "reset":
                for (int i = 0; i < taken.Length; i++)
                    Interlocked.Exchange(ref taken[i], 0);
                return "reset";
            case "nanoseconds": return Told(nanoseconds => nanoseconds.ToString());
            case "shares":
                double all = Math.Max(1, taken.Sum());
                return Told(nanoseconds => (nanoseconds / all).ToString("F5", CultureInfo.InvariantCulture));
            default: return "unknown";
        }
    }

    static string Told(Func<long, string> how)
    {
        return string.Join(" ", names.Select((name, i) => name + "=" + how(Interlocked.Read(ref taken[i]))));
    }

    static void Start(string[] actor)
    {
        int pause = int.Parse(actor[1]);
        long phase = actor[2] == "-" ? -1 : (long)(Number(actor[2]) * Millisecond);
        Burst[] turns = actor[4].Split('+').Select(Parse).ToArray();
        for (int i = 0; i < int.Parse(actor[3]); i++)
        {
            int turn = 0;
            Action burst = () => Run(turns[turn++ % turns.Length], phase);
            switch (actor[0])
            {
                case "delay": _ = AfterDelays(pause, burst); break;
                case "sleep": Begin(actor[0], () => AfterSleeps(pause, burst)); break;
                case "socket": AfterBytes(pause, burst); break;
                case "semaphore": AfterReleases(pause, burst); break;
                case "pool": Begin(actor[0], () => AsWorkItems(pause, burst)); break;
                default: throw new ArgumentException(actor[0]);
            }
        }
    }

    static Burst Parse(string text)
    {
        string[] parts = text.TrimEnd('k').Split('*');
        int method = Array.IndexOf(names, parts[0]);
        double nanoseconds = Number(parts[1]) * Millisecond;
        bool half = text.EndsWith("k");
        double computing = half ? nanoseconds / 2 : nanoseconds;
        return new Burst
        {
            Method = method,
            Loops = (long)(computing / perLoop[method]),
            Calls = half ? Math.Max(1, (long)(nanoseconds / 2 / perCall)) : 0,
        };
    }

    static double Number(string text)
    {
        return double.Parse(text, CultureInfo.InvariantCulture);
    }

    static void Begin(string name, ThreadStart body)
    {
        new Thread(body) { IsBackground = true, Name = name }.Start();
    }

    static async Task AfterDelays(int pause, Action burst)
    {
        while (true)
        {
            await Task.Delay(pause).ConfigureAwait(false);
            burst();
        }
    }

    static void AfterSleeps(int pause, Action burst)
    {
        while (true)
        {
            Thread.Sleep(pause);
            burst();
        }
    }

    /// A partner sends a byte back after each pause.
    static void AfterBytes(int pause, Action burst)
    {
        var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1);
        var near = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        near.Connect(listener.LocalEndPoint);
        Socket far = listener.Accept();
        far.NoDelay = true;
        Begin("partner", () =>
        {
            var bytes = new byte[1];
            while (far.Receive(bytes) == 1)
            {
                Thread.Sleep(pause);
                far.Send(bytes);
            }
        });
        Begin("socket", () =>
        {
            var bytes = new byte[1];
            while (true)
            {
                near.Send(bytes);
                near.Receive(bytes);
                burst();
            }
        });
    }

    static void AfterReleases(int pause, Action burst)
    {
        var asked = new SemaphoreSlim(0);
        var answered = new SemaphoreSlim(0);
        Begin("partner", () =>
        {
            while (true)
            {
                asked.Wait();
                Thread.Sleep(pause);
                answered.Release();
            }
        });
        Begin("semaphore", () =>
        {
            while (true)
            {
                asked.Release();
                answered.Wait();
                burst();
            }
        });
    }

    static void AsWorkItems(int pause, Action burst)
    {
        var done = new AutoResetEvent(false);
        WaitCallback item = _ =>
        {
            burst();
            done.Set();
        };
        while (true)
        {
            Thread.Sleep(pause);
            ThreadPool.QueueUserWorkItem(item);
            done.WaitOne();
        }
    }

    static void Run(Burst burst, long phase)
    {
        if (phase >= 0)
            WaitForPhase(phase);
        long start = Now(ThreadCpu);
        methods[burst.Method](burst.Loops, burst.Calls);
        long used = Now(ThreadCpu) - start - reading;
        Interlocked.Add(ref taken[burst.Method], used);
        Interlocked.Increment(ref bursts);
    }

    /// Sleeps until `phase` after the next tick.
    static void WaitForPhase(long phase)
    {
        long now = Now(Monotonic);
        long until = now + tickPeriod - (now - tick - phase) % tickPeriod;
        var time = new Time { Seconds = until / 1000000000, Nanoseconds = until % 1000000000 };
        clock_nanosleep(Monotonic, AbsoluteTime, ref time, IntPtr.Zero);
    }

    static void Calibrate()
    {
        FindTick();
        reading = long.MaxValue;
        for (int i = 0; i < 10000; i++)
        {
            long start = Now(ThreadCpu);
            reading = Math.Min(reading, Now(ThreadCpu) - start);
        }
        for (int i = 0; i < methods.Length; i++)
        {
            Body method = methods[i];
            perLoop[i] = Fit(count => method(count, 0), 1000000);
        }
        perCall = Fit(count => Alpha(0, count), 1000);
        Array.Clear(taken, 0, taken.Length);
    }

    /// The coarse clock changes at a tick, and ticks come at equal distances of the monotonic clock.
    static void FindTick()
    {
        clock_getres(MonotonicCoarse, out Time period);
        tickPeriod = period.Nanoseconds;
        long earliest = 0;
        for (int i = 0; i < 10; i++)
        {
            long before = Now(MonotonicCoarse);
            while (Now(MonotonicCoarse) == before) { }
            long seen = Now(Monotonic);
            if (i == 0)
                tick = seen;
            long late = (seen - tick + tickPeriod / 2) % tickPeriod - tickPeriod / 2;
            earliest = Math.Min(earliest, late);
        }
        tick += earliest;
    }

    /// Nanoseconds for one of `count`, at best.
    static double Fit(Action<long> work, long count)
    {
        double best = double.MaxValue;
        for (int i = 0; i < 5; i++)
        {
            long start = Now(ThreadCpu);
            work(count);
            best = Math.Min(best, (double)(Now(ThreadCpu) - start) / count);
        }
        return best;
    }

    static long Now(int clock)
    {
        clock_gettime(clock, out Time time);
        return time.Seconds * 1000000000 + time.Nanoseconds;
    }

    [MethodImpl(Plain)]
    static void Alpha(long loops, long calls)
    {
        ulong state = 1;
        for (long i = 0; i < loops; i++)
            state = state * 6364136223846793005 + 1442695040888963407;
        sink = state;
        if (calls > 0)
            Call(calls);
    }

    [MethodImpl(Plain)]
    static void Beta(long loops, long calls)
    {
        ulong state = 2;
        for (long i = 0; i < loops; i++)
            state = state * 2862933555777941757 + 3037000493;
        sink = state;
        if (calls > 0)
            Call(calls);
    }

    [MethodImpl(Plain)]
    static void Gamma(long loops, long calls)
    {
        ulong state = 3;
        for (long i = 0; i < loops; i++)
            state = state * 3202034522624059733 + 1;
        sink = state;
        if (calls > 0)
            Call(calls);
    }

    [MethodImpl(Plain)]
    static void Delta(long loops, long calls)
    {
        ulong state = 4;
        for (long i = 0; i < loops; i++)
            state = state * 1181783497276652981 + 7;
        sink = state;
        if (calls > 0)
            Call(calls);
    }

    [MethodImpl(Plain)]
    static unsafe void Call(long calls)
    {
        const int Length = 8192;
        byte* buffer = stackalloc byte[Length];
        for (long i = 0; i < calls; i++)
            read(zero, buffer, (IntPtr)Length);
    }
}
