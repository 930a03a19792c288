// Threads that are blocked in one of the ways that .NET has, or that spin instead.
//
// blocked kinds
//   One thread for each kind of wait, each in a method of its own.
// blocked spread
//   Threads of the pool that wait for tasks in eight methods, and threads of their own that take one lock in eight methods.
// blocked spin KIND
//   Two threads that wait for something that never comes, by `yield`, `sleep0`, `spinwait` or `taskyield`.
using System;
using System.Collections.Concurrent;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

static class Blocked
{
    static volatile bool comes;

    static void Main(string[] arguments)
    {
        ThreadPool.SetMinThreads(16, 16);
        if (arguments[0] == "kinds")
            foreach (Action wait in new Action[] { Kinds.Take, Kinds.Add, Kinds.Semaphore, Kinds.Event, Kinds.Countdown, Kinds.Barrier,
                Kinds.Read, Kinds.Result, Kinds.WaitAll, Kinds.WaitAny, Kinds.StartTasks })
                Start(wait);
        else if (arguments[0] == "spread")
            Spread.Begin();
        else
            for (int i = 0; i < 2; i++)
                Spin(arguments[1]);
        Console.WriteLine("ready");
        while (Console.ReadLine() is string line && line != "quit")
            Console.WriteLine("unknown");
        Environment.Exit(0);
    }

    public static void Start(Action wait) => new Thread(() => wait()) { IsBackground = true }.Start();

    static void Spin(string kind)
    {
        switch (kind)
        {
            case "yield": Start(() => { while (!comes) Thread.Yield(); }); break;
            case "sleep0": Start(() => { while (!comes) Thread.Sleep(0); }); break;
            case "spinwait": Start(() => { while (!comes) Thread.SpinWait(100); }); break;
            case "taskyield": Task.Run(YieldTasks); break;
            default: throw new ArgumentException(kind);
        }
    }

    static async Task YieldTasks()
    {
        while (!comes)
            await Task.Yield();
    }
}

static class Kinds
{
    static readonly Task never = new TaskCompletionSource<int>().Task;
    static readonly ReaderWriterLockSlim written = Written();

    static ReaderWriterLockSlim Written()
    {
        var written = new ReaderWriterLockSlim();
        written.EnterWriteLock();
        return written;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Take() => GC.KeepAlive(new BlockingCollection<string>().Take());

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Add()
    {
        var full = new BlockingCollection<int>(1);
        full.Add(1);
        full.Add(2);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Semaphore() => new SemaphoreSlim(0).Wait();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Event() => new ManualResetEventSlim().Wait();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Countdown() => new CountdownEvent(1).Wait();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Barrier() => new Barrier(2).SignalAndWait();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Read()
    {
        // The first thread of the class holds the lock, and that can be this one.
        ReaderWriterLockSlim held = written;
        Blocked.Start(() => ReadThere(held));
        Thread.Sleep(Timeout.Infinite);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void ReadThere(ReaderWriterLockSlim held)
    {
        held.EnterReadLock();
        held.ExitReadLock();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Result() => GC.KeepAlive(((Task<int>)never).Result);

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void WaitAll()
    {
        Task.WaitAll(never, Task.CompletedTask);
        GC.KeepAlive(never);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void WaitAny() => GC.KeepAlive(Task.WaitAny(never, new TaskCompletionSource<int>().Task));

    /// Starts tasks, and never waits for one.
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void StartTasks()
    {
        for (;;)
        {
            for (int i = 0; i < 100; i++)
                Task.Run(() => { });
            Thread.Sleep(1);
        }
    }
}

static class Spread
{
    static readonly object shared = new object();

    public static void Begin()
    {
        foreach (Action get in new Action[] { Get0, Get1, Get2, Get3, Get4, Get5, Get6, Get7 })
        {
            Task.Run(async () =>
            {
                for (;;)
                {
                    get();
                    await Task.Delay(30);
                }
            });
        }
        foreach (Action take in new Action[] { Take0, Take1, Take2, Take3, Take4, Take5, Take6, Take7 })
        {
            Blocked.Start(() =>
            {
                for (;;)
                {
                    take();
                    Thread.Sleep(4);
                }
            });
        }
    }

    static async Task<int> Ask()
    {
        await Task.Delay(30);
        return 1;
    }

    static void Hold() => Thread.Sleep(1);

    [MethodImpl(MethodImplOptions.NoInlining)] static void Get0() => GC.KeepAlive(Ask().Result);
    [MethodImpl(MethodImplOptions.NoInlining)] static void Get1() => Ask().Wait();
    [MethodImpl(MethodImplOptions.NoInlining)] static void Get2() => GC.KeepAlive(Ask().GetAwaiter().GetResult());
    [MethodImpl(MethodImplOptions.NoInlining)] static void Get3() => GC.KeepAlive(Ask().ConfigureAwait(false).GetAwaiter().GetResult());
    [MethodImpl(MethodImplOptions.NoInlining)] static void Get4() => Task.WaitAll(Ask());
    [MethodImpl(MethodImplOptions.NoInlining)] static void Get5() => Task.WaitAny(Ask());
    [MethodImpl(MethodImplOptions.NoInlining)] static void Get6() => GC.KeepAlive(Ask().Result);
    [MethodImpl(MethodImplOptions.NoInlining)] static void Get7() => GC.KeepAlive(Ask().Result);

    [MethodImpl(MethodImplOptions.NoInlining)] static void Take0() { lock (shared) Hold(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Take1() { lock (shared) Hold(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Take2() { lock (shared) Hold(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Take3() { lock (shared) Hold(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Take4() { lock (shared) Hold(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Take5() { lock (shared) Hold(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Take6() { lock (shared) Hold(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void Take7() { lock (shared) Hold(); }
}
