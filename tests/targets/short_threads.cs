// Threads that are born and die all the time: what is sampled of a thread that ends while it is looked at.
//
// short_threads [AT_A_TIME [MILLISECONDS [sleep]]]
// Each thread uses CPU time for so long, or sleeps, and ends. Another takes its place.
// The runtime frees what it holds of an ended thread when the thread's object is collected. That would not happen for half a minute, and
// grow the process by 30 MiB until then, so every hundredth thread is followed by a GC.
// `count` answers how many have ended, `longest` the milliseconds of the longest life.
using System;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Threading;

static class ShortThreads
{
    static long ended;
    static bool sleeps;
    static long longest;

    static void Main(string[] arguments)
    {
        int atATime = arguments.Length > 0 ? int.Parse(arguments[0]) : 2;
        int milliseconds = arguments.Length > 1 ? int.Parse(arguments[1]) : 5;
        sleeps = arguments.Length > 2;
        for (int i = 0; i < atATime; i++)
            new Thread(() => Breed(milliseconds)) { IsBackground = true, Name = "breeder" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Interlocked.Read(ref ended).ToString()
                : line == "longest" ? Interlocked.Read(ref longest).ToString() : "unknown");
    }

    static void Breed(int milliseconds)
    {
        while (true)
        {
            var child = new Thread(() => Live(milliseconds)) { Name = "short-lived" };
            var watch = Stopwatch.StartNew();
            child.Start();
            child.Join();
            for (long life = watch.ElapsedMilliseconds + 1, known; (known = Interlocked.Read(ref longest)) < life;)
                Interlocked.CompareExchange(ref longest, life, known);
            if (Interlocked.Increment(ref ended) % 100 == 0)
                GC.Collect();
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Live(int milliseconds)
    {
        if (sleeps)
        {
            Thread.Sleep(milliseconds);
            return;
        }
        var watch = Stopwatch.StartNew();
        while (watch.ElapsedMilliseconds < milliseconds)
        {
        }
    }
}
