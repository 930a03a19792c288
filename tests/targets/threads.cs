// Has many threads, most of which sleep or wait and a few of which work: the load for sampling by the clock within a budget.
//
// threads [ALL [BUSY]]
// Of those that are not busy, every second one sleeps in short naps and every other one waits for a lock that nobody releases.
// `count` answers the operations of the busy ones; `threads` answers how many threads of each kind there are.
using System;
using System.Runtime.CompilerServices;
using System.Threading;

static class Threads
{
    static readonly object gate = new object();
    static long operations;
    static CountdownEvent started;

    static void Main(string[] arguments)
    {
        int all = arguments.Length > 0 ? int.Parse(arguments[0]) : 500;
        int busy = arguments.Length > 1 ? int.Parse(arguments[1]) : 1;
        started = new CountdownEvent(all);
        Monitor.Enter(gate);
        for (int i = 0; i < all; i++)
        {
            bool works = i < busy, sleeps = i % 2 == 0;
            ThreadStart body = works ? BeBusy : sleeps ? (ThreadStart)Nap : WaitForTheGate;
            string name = (works ? "busy " : sleeps ? "sleeper " : "waiter ") + i;
            new Thread(body, 256 * 1024) { IsBackground = true, Name = name }.Start();
        }
        started.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Interlocked.Read(ref operations).ToString() : line == "threads" ? all + " " + busy : "unknown");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void BeBusy()
    {
        started.Signal();
        while (true)
        {
            uint state = 1;
            for (int i = 0; i < 10000; i++)
                state = state * 1664525 + 1013904223;
            if (state != 0)
                Interlocked.Increment(ref operations);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Nap()
    {
        started.Signal();
        while (true)
            Thread.Sleep(100);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void WaitForTheGate()
    {
        started.Signal();
        lock (gate)
            throw new InvalidOperationException("the gate was opened");
    }
}
