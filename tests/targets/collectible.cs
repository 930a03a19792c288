// Loads a plug-in into a collectible context, runs it, unloads it, and begins again: methods that are gone when their samples are named.
//
// collectible
// The plug-in is plugin.dll beside the program, loaded from bytes. `count` answers the rounds; `unloaded` answers the contexts that are gone.
using System;
using System.IO;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;

static class Collectible
{
    static long rounds;
    static long unloaded;

    static void Main()
    {
        byte[] plugin = File.ReadAllBytes(Path.Combine(AppContext.BaseDirectory, "plugin.dll"));
        byte[] symbols = File.ReadAllBytes(Path.Combine(AppContext.BaseDirectory, "plugin.pdb"));
        new Thread(() => Work(plugin, symbols)) { IsBackground = true, Name = "loader" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Interlocked.Read(ref rounds).ToString() : line == "unloaded" ? Interlocked.Read(ref unloaded).ToString() : "unknown");
    }

    static void Work(byte[] plugin, byte[] symbols)
    {
        while (true)
        {
            WeakReference context = LoadRunUnload(plugin, symbols);
            for (int i = 0; context.IsAlive && i < 20; i++)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
            }
            if (!context.IsAlive)
                Interlocked.Increment(ref unloaded);
            Interlocked.Increment(ref rounds);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static WeakReference LoadRunUnload(byte[] plugin, byte[] symbols)
    {
        var context = new AssemblyLoadContext("plug-in", isCollectible: true);
        Assembly assembly = context.LoadFromStream(new MemoryStream(plugin), new MemoryStream(symbols));
        var burn = (Action<int>)assembly.GetType("Plugin.Worker").GetMethod("Burn").CreateDelegate(typeof(Action<int>));
        burn(1000);
        context.Unload();
        return new WeakReference(context);
    }
}
