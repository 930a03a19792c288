// Does nothing by itself, and one thing at a time when it is told to, on the thread that is named: what a profiler is called back for
// is then known beforehand.
//
// obedient
// `a VERB` or `b VERB` has that thread do it and answers what came of it. `start a VERB` answers `started` at once and `finish a` waits
// for the answer, for what a profiler holds up in between. The verbs are the cases of `Do`.
using System;
using System.Collections.Generic;
using System.IO;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;

static class Obedient
{
    sealed class Worker
    {
        readonly SemaphoreSlim begun = new SemaphoreSlim(0);
        readonly SemaphoreSlim done = new SemaphoreSlim(0);
        string verb;
        string answer;

        public Worker(string name) => new Thread(Run) { IsBackground = true, Name = name }.Start();

        public void Start(string what)
        {
            verb = what;
            begun.Release();
        }

        public string Finish()
        {
            done.Wait();
            return answer;
        }

        void Run()
        {
            while (true)
            {
                begun.Wait();
                answer = Do(verb);
                done.Release();
            }
        }
    }

    /// Its finalizer does not return until it is told to.
    sealed class Stuck
    {
        ~Stuck()
        {
            blocked.Set();
            unblocked.Wait();
        }
    }

    struct Zero { }

    struct Next<T> { public T Inner; public byte More; }

    static readonly byte[] own = File.ReadAllBytes(typeof(Obedient).Assembly.Location);
    static readonly Stack<AssemblyLoadContext> contexts = new Stack<AssemblyLoadContext>();
    static readonly ManualResetEventSlim blocked = new ManualResetEventSlim();
    static readonly ManualResetEventSlim unblocked = new ManualResetEventSlim();
    static Type deepest = typeof(Zero);
    static object kept;

    static void Main()
    {
        var workers = new Dictionary<string, Worker> { ["a"] = new Worker("a"), ["b"] = new Worker("b") };
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            string[] words = line.Split(' ');
            if (words[0] == "start")
            {
                workers[words[1]].Start(words[2]);
                Console.WriteLine("started");
            }
            else if (words[0] == "finish")
                Console.WriteLine(workers[words[1]].Finish());
            else
            {
                workers[words[0]].Start(words[1]);
                Console.WriteLine(workers[words[0]].Finish());
            }
        }
    }

    static string Do(string verb)
    {
        switch (verb)
        {
            case "rest": return "rested";
            case "load": return Load();
            case "unload": return Unload();
            case "jit": return Compile();
            case "often": return Often();
            case "dynamic": return Emit();
            case "throw": return Throw();
            case "filter": return Filter();
            case "many": return Many();
            case "large": kept = new byte[200000]; return "allocated";
            case "small": kept = new byte[100]; return "allocated";
            case "gc": GC.Collect(); return "collected";
            case "name": return NameThread();
            case "block": return Block();
            case "unblock": unblocked.Set(); return "unblocked";
            default: return "unknown";
        }
    }

    /// Loads this very program into a context that can be unloaded.
    [MethodImpl(MethodImplOptions.NoInlining)]
    static string Load()
    {
        var context = new AssemblyLoadContext("context", isCollectible: true);
        Assembly assembly = context.LoadFromStream(new MemoryStream(own));
        lock (contexts)
            contexts.Push(context);
        return assembly.GetName().Name;
    }

    /// Modules and compiled methods that were not there before, one after the other.
    static string Many()
    {
        for (int i = 0; i < 10; i++)
        {
            Load();
            Compile();
        }
        return "many";
    }

    static string Unload()
    {
        WeakReference context = BeginUnload();
        for (int i = 0; context.IsAlive && i < 100; i++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        return context.IsAlive ? "alive" : "unloaded";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static WeakReference BeginUnload()
    {
        AssemblyLoadContext context;
        lock (contexts)
            context = contexts.Pop();
        context.Unload();
        return new WeakReference(context);
    }

    /// A generic method over a type that there was not before has to be compiled.
    static string Compile()
    {
        Type type;
        lock (contexts)
            type = deepest = typeof(Next<>).MakeGenericType(deepest);
        MethodInfo method = typeof(Obedient).GetMethod(nameof(Fresh), BindingFlags.NonPublic | BindingFlags.Static);
        var fresh = (Func<int, int>)method.MakeGenericMethod(type).CreateDelegate(typeof(Func<int, int>));
        return fresh(3).ToString();
    }

    /// Calls a method of its own, and one of the framework's, so often that the runtime makes better bodies of them.
    static string Often()
    {
        int answer = 0;
        for (int i = 0; i < 40; i++)
            answer = Called(answer) + string.CompareOrdinal("called", i % 5, "often", 0, 5);
        return answer == 1 ? "often" : "called";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Called(int number) => number > 1000 ? number - 7 : number * 3 + 1;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Fresh<T>(int number) => number * 2 + (typeof(T).IsValueType ? 1 : 0);

    static string Emit()
    {
        var method = new DynamicMethod("Emitted", typeof(int), new[] { typeof(int) });
        ILGenerator il = method.GetILGenerator();
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Ldc_I4_1);
        il.Emit(OpCodes.Add);
        il.Emit(OpCodes.Ret);
        return ((Func<int, int>)method.CreateDelegate(typeof(Func<int, int>)))(6).ToString();
    }

    /// A thread begins, gives itself a name, and ends.
    static string NameThread()
    {
        var named = new Thread(() => Thread.CurrentThread.Name = "named");
        named.Start();
        named.Join();
        return "named";
    }

    /// Returns when the thread that runs finalizers is held.
    static string Block()
    {
        Drop();
        while (!blocked.Wait(10))
            GC.Collect();
        return "blocked";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Drop() => new Stuck();

    static string Throw()
    {
        try
        {
            throw new InvalidOperationException("as asked");
        }
        catch (InvalidOperationException caught)
        {
            kept = caught;
            return "caught";
        }
    }

    /// An exception on its way through a finally to a filter that accepts it.
    static string Filter()
    {
        string way = "";
        try
        {
            try
            {
                throw new InvalidOperationException("as asked");
            }
            finally
            {
                way = "caught after a finally";
            }
        }
        catch (InvalidOperationException caught) when (caught.InnerException == null)
        {
            kept = caught;
            return way;
        }
    }
}

/// The types below never run. They are what a profiler can read in metadata: tests/conformance/tests/metadata_contents.rs asks about them.
[AttributeUsage(AttributeTargets.All)]
sealed class NoteAttribute : Attribute
{
    public bool Kept;

    public NoteAttribute(string text, int number) { }
}

interface ISized
{
    int Size { get; }
}

[Note("a shelf", 7, Kept = true)]
class Shelf<T> : ISized where T : class, IDisposable
{
    public const int Most = 12;
    public const string Label = "shelf";
    static long made;
    protected readonly T first;

    protected Shelf(T first) => this.first = first;

    public int Size { get { return Most; } set { made = value; } }

    public event Action Emptied { add { } remove { } }

    public static string Put<U>(T item, out U place, string name = "none")
    {
        place = default(U);
        return name + "put";
    }

    internal sealed class Slip
    {
        [Note("depth", 1)]
        public int Depth;
    }
}

static class Shelves
{
    public static string Use()
    {
        int place;
        return Shelf<MemoryStream>.Put<int>(null, out place);
    }
}
